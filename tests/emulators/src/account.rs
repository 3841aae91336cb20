//! An account of an emulator, as anybody could use it: behind the driver's back, and past the proxy.

use std::sync::Arc;
use std::time::Duration;

use aws::client::{CallError, Client, Http};
use aws::credentials::Provider;
use aws::{endpoint, model};
use serde_json::{Value, json};

pub const REGION: &str = "eu-west-1";

pub struct Account {
    client: Client,
}

impl Account {
    /// The one behind an address.
    pub fn at(url: &str) -> Account {
        let settings = endpoint::Settings { url: Some(url.to_owned()), ..Default::default() };
        let http = Arc::new(Http::new(Duration::from_secs(60)));
        Account { client: Client::new(http, Provider::given("test", "test", None), REGION, settings) }
    }

    pub async fn call(&self, service: &str, operation: &str, input: Value) -> Result<Value, CallError> {
        self.client.call(model::service(service).unwrap(), operation, &input).await
    }

    /// How many resources a list shows, at a place in its answer.
    pub async fn count(&self, service: &str, list: &str, at: &str) -> usize {
        let reply = self.client.call_all(model::service(service).unwrap(), list, &json!({})).await.unwrap();
        let items = reply.pointer(at).and_then(Value::as_array).cloned().unwrap_or_default();
        if (service, list) != ("kms", "ListKeys") {
            return items.len();
        }
        // A key that is to go stays in the list for days.
        let mut left = 0;
        for item in items {
            let key = self.call("kms", "DescribeKey", json!({"KeyId": item["KeyId"]})).await.unwrap();
            left += usize::from(key["KeyMetadata"]["KeyState"] != "PendingDeletion");
        }
        left
    }
}

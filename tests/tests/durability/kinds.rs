//! What is written: objects of several kinds, each carrying the mark of the write that made it so.

use std::collections::BTreeMap;

use end_to_end::Client;
use serde_json::{Value, json};

/// Objects of this test, among those the control plane has of its own.
pub const SELECTOR: &str = "durability%3Dyes";
pub const NAMESPACES: [&str; 4] = ["d0", "d1", "d2", "d3"];
/// Where a quota is charged for everything.
pub const CHARGED: &str = "charged";

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    ConfigMap,
    /// Written by server-side apply only.
    Deployment,
    /// Made and never removed, so that what the quota charges is exactly their number.
    Secret,
    /// Takes an address, which is an object of its own, with the Service.
    Service,
}

impl Kind {
    pub const ALL: [Kind; 4] = [Kind::ConfigMap, Kind::Deployment, Kind::Secret, Kind::Service];

    fn names(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Kind::ConfigMap => ("v1", "ConfigMap", "/api/v1/configmaps"),
            Kind::Deployment => ("apps/v1", "Deployment", "/apis/apps/v1/deployments"),
            Kind::Secret => ("v1", "Secret", "/api/v1/secrets"),
            Kind::Service => ("v1", "Service", "/api/v1/services"),
        }
    }

    /// In all namespaces.
    pub fn collection(self) -> &'static str {
        self.names().2
    }

    fn body(self) -> (&'static str, Value) {
        match self {
            Kind::ConfigMap => ("data", json!({"key": "value ".repeat(40)})),
            Kind::Secret => ("stringData", json!({"key": "secret"})),
            Kind::Service => ("spec", json!({"ports": [{"port": 80}], "selector": {"a": "b"}})),
            Kind::Deployment => {
                let labels = json!({"app": "d"});
                let containers = json!([{"name": "c", "image": "i"}]);
                let template = json!({"metadata": {"labels": labels}, "spec": {"containers": containers}});
                ("spec", json!({"selector": {"matchLabels": labels}, "template": template}))
            }
        }
    }
}

/// Where an object is.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Place {
    pub kind: Kind,
    pub namespace: String,
    pub name: String,
}

impl Place {
    pub fn of(kind: Kind, object: &Value) -> Place {
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        Place { kind, namespace: text("namespace"), name: text("name") }
    }

    pub fn collection(&self) -> String {
        let (path, resource) = self.kind.collection().rsplit_once('/').unwrap();
        format!("{path}/namespaces/{}/{resource}", self.namespace)
    }

    pub fn path(&self) -> String {
        format!("{}/{}", self.collection(), self.name)
    }

    /// The object that lies here, with this mark.
    pub fn object(&self, mark: u64, owners: &Owners) -> Value {
        let (api_version, kind, _) = self.kind.names();
        let (field, body) = self.kind.body();
        let mut object = json!({
            "apiVersion": api_version, "kind": kind,
            "metadata": {
                "name": self.name, "namespace": self.namespace,
                "labels": {"durability": "yes"}, "annotations": {"mark": mark.to_string()},
            },
        });
        object[field] = body;
        if self.kind == Kind::ConfigMap {
            object["metadata"]["ownerReferences"] = json!([owners.reference(&self.namespace)]);
        }
        object
    }
}

/// A config map in each namespace that all others there belong to.
pub struct Owners(BTreeMap<String, String>);

const OWNER: &str = "owner";

impl Owners {
    pub fn make(client: &Client) -> Owners {
        let make = |namespace: &str| {
            let path = format!("/api/v1/namespaces/{namespace}/configmaps");
            let made = client.post(&path, &json!({"metadata": {"name": OWNER}})).ok();
            (namespace.to_owned(), made["metadata"]["uid"].as_str().unwrap().to_owned())
        };
        Owners(NAMESPACES.into_iter().map(make).collect())
    }

    fn reference(&self, namespace: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "name": OWNER, "uid": self.0[namespace]})
    }

    pub fn delete(&self, client: &Client) {
        for namespace in self.0.keys() {
            client.delete(&format!("/api/v1/namespaces/{namespace}/configmaps/{OWNER}")).ok();
        }
    }
}

/// One state of an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Version {
    pub revision: u64,
    /// Of the write that made it; none write the same.
    pub mark: u64,
}

impl Version {
    pub fn of(object: &Value) -> Version {
        let metadata = &object["metadata"];
        let revision = metadata["resourceVersion"].as_str().and_then(|text| text.parse().ok());
        let mark = metadata["annotations"]["mark"].as_str().and_then(|text| text.parse().ok());
        Version {
            revision: revision.unwrap_or_else(|| panic!("no revision: {object:#}")),
            mark: mark.unwrap_or(0),
        }
    }
}

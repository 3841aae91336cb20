//! Against a server on loopback that answers as it is told.

use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::{Client, Http, RetryPolicy};
use crate::credentials::{Provider, Role};
use crate::endpoint::Settings;
use crate::model::service;

/// What the server answers, one entry per connection; none to hang up without a word.
type Script = Vec<Option<String>>;

/// A server that follows a script, its address, and the requests it got.
async fn scripted(script: Script) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let seen = Arc::new(Mutex::new(Vec::new()));
    let kept = seen.clone();
    tokio::spawn(async move {
        for answer in script {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = Vec::new();
            let mut buffer = [0; 4096];
            loop {
                let read = stream.read(&mut buffer).await.unwrap_or(0);
                request.extend_from_slice(&buffer[..read]);
                if read == 0 || is_whole(&request) {
                    break;
                }
            }
            kept.lock().unwrap().push(String::from_utf8_lossy(&request).into_owned());
            if let Some(answer) = answer {
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        }
    });
    (address, seen)
}

fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    body.len() >= length.unwrap_or(0)
}

fn answer(status: &str, headers: &str, body: &str) -> Option<String> {
    let length = body.len();
    Some(format!("HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\nconnection: close\r\n\r\n{body}"))
}

fn client(url: &str) -> Client {
    let settings = Settings { url: Some(url.to_owned()), ..Settings::default() };
    let http = Arc::new(Http::new(Duration::from_secs(10)));
    Client::new(http, Provider::given("AKID", "not-a-key", None), "eu-west-1", settings)
}

#[tokio::test]
async fn an_answer_is_read() {
    let (url, seen) = scripted(vec![answer("200 OK", "", r#"{"QueueUrl":"u"}"#)]).await;
    let sqs = service("sqs").unwrap();
    let output = client(&url).call(sqs, "GetQueueUrl", &json!({"QueueName": "q"})).await.unwrap();
    assert_eq!(output, json!({"QueueUrl": "u"}));
    let seen = seen.lock().unwrap();
    assert!(seen[0].contains("x-amz-target: AmazonSQS.GetQueueUrl"), "{seen:?}");
    assert!(seen[0].contains("/eu-west-1/sqs/aws4_request"), "{seen:?}");
    assert!(!seen[0].contains("not-a-key"));
}

#[tokio::test]
async fn bodies_that_say_nothing_are_survived() {
    let check = async |answer: Option<String>, code: &str, status| {
        let (url, _) = scripted(vec![answer]).await;
        let policy = RetryPolicy { attempts: 1, throttled: false };
        let client = client(&url).with_policy(policy);
        let error =
            client.call(service("iam").unwrap(), "GetRole", &json!({"RoleName": "r"})).await.unwrap_err();
        assert_eq!((error.code.as_str(), error.http_status), (code, status), "{error}");
    };
    let html = "<!doctype html><html><body>500</body></html>";
    check(answer("500 Oops", "content-type: text/html\r\n", html), "InternalServerError", Some(500)).await;
    check(answer("404 Not Found", "", ""), "NotFound", Some(404)).await;
    check(answer("503 Busy", "", "<ErrorResponse><Error><Code>Thr"), "ServiceUnavailable", Some(503)).await;
    check(answer("200 OK", "", "<GetRoleResponse><GetRoleRes"), "UnreadableResponse", Some(200)).await;
    check(Some("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nshort".to_owned()), "NoResponse", None).await;
    check(None, "NoResponse", None).await;
}

#[tokio::test]
async fn what_can_be_repeated_is_tried_again_and_nothing_else() {
    let sqs = service("sqs").unwrap();
    let broken = answer("500 Oops", "", "");
    let (url, seen) = scripted(vec![broken.clone(), None, answer("200 OK", "", r#"{"QueueUrl":"u"}"#)]).await;
    client(&url).call(sqs, "GetQueueUrl", &json!({"QueueName": "q"})).await.unwrap();
    assert_eq!(seen.lock().unwrap().len(), 3);

    let (url, seen) = scripted(vec![broken, answer("200 OK", "", "{}")]).await;
    let error = client(&url).call(sqs, "CreateQueue", &json!({"QueueName": "q"})).await.unwrap_err();
    assert!(error.ambiguous && error.retryable);
    assert_eq!(seen.lock().unwrap().len(), 1);

    let slower =
        answer("400 Slower", "", r#"{"__type":"com.amazonaws#ThrottlingException","message":"slower"}"#);
    let (url, seen) = scripted(vec![slower, answer("200 OK", "", "{}")]).await;
    client(&url).call(sqs, "CreateQueue", &json!({"QueueName": "q"})).await.unwrap();
    assert_eq!(seen.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn nobody_there_is_a_connection_that_failed() {
    let error = client("http://127.0.0.1:1")
        .call(service("sqs").unwrap(), "CreateQueue", &json!({"QueueName": "q"}))
        .await;
    let error = error.unwrap_err();
    assert_eq!(error.code, "NoResponse");
    assert!(!error.ambiguous && error.message.contains("127.0.0.1:1"), "{error}");
}

#[tokio::test]
async fn the_clock_is_set_by_the_service() {
    let skewed = answer(
        "403 Forbidden",
        "date: Tue, 01 Jan 2030 00:00:30 GMT\r\n",
        r#"{"__type":"InvalidSignatureException","message":"Signature expired"}"#,
    );
    let (url, seen) = scripted(vec![skewed, answer("200 OK", "", "{}")]).await;
    client(&url).call(service("sqs").unwrap(), "CreateQueue", &json!({"QueueName": "q"})).await.unwrap();
    assert!(seen.lock().unwrap()[1].contains("x-amz-date: 20300101T0000"), "{seen:?}");
}

#[tokio::test]
async fn a_role_is_assumed_once() {
    let keys = "<AssumeRoleResponse><AssumeRoleResult><Credentials><AccessKeyId>ASIA</AccessKeyId>\
        <SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken>\
        <Expiration>2999-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>";
    let (url, seen) =
        scripted(vec![answer("200 OK", "", keys), answer("200 OK", "", "{}"), answer("200 OK", "", "{}")])
            .await;
    let base = client(&url);
    let settings = Settings { url: Some(url), ..Settings::default() };
    let role = Role {
        arn: "arn:aws:iam::111122223333:role/r".into(),
        session: crate::credentials::session_name("hangar-a/b"),
        external_id: Some("uid".into()),
        tags: vec![("hangar.dev/control-plane".into(), "a".into())],
    };
    let role = Provider::of_role(base.clone(), role);
    let client = Client::new(Arc::new(Http::new(Duration::from_secs(5))), role, "eu-west-1", settings);
    for _ in 0..2 {
        client.call(service("sqs").unwrap(), "ListQueues", &json!({})).await.unwrap();
    }
    let seen = seen.lock().unwrap();
    for sent in ["Action=AssumeRole", "RoleSessionName=hangar-a-b", "ExternalId=uid", "Tags.member.1.Value=a"]
    {
        assert!(seen[0].contains(sent), "{sent} in {}", seen[0]);
    }
    assert!(seen[1].contains("x-amz-security-token: t") && seen[2].contains("Credential=ASIA"));
}

#[tokio::test]
async fn inputs_that_do_not_fit_are_not_sent() {
    let check = async |input, expected: &str| {
        let client = client("http://127.0.0.1:1");
        let error = client.call(service("sqs").unwrap(), "CreateQueue", &input).await.unwrap_err();
        assert_eq!(error.to_string(), expected);
    };
    check(json!({"QueueName": 1}), "InvalidInput: CreateQueue: QueueName must be a string").await;
    check(json!({"Colour": 1}), "InvalidInput: CreateQueue: Colour is no member of the operation's input")
        .await;
}

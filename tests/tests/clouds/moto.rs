//! moto, and control planes whose AWS it is.

use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use end_to_end::{ControlPlane, Server, tools_dir};
use serde_json::{Value, json};

use super::{eventually, good, is_true, object};

pub struct Moto {
    process: Child,
    port: u16,
    /// Of its recorder.
    _directory: tempfile::TempDir,
}

impl Moto {
    pub fn start() -> Moto {
        Moto::start_with(&[])
    }

    /// With variables that change how it behaves.
    pub fn start_with(variables: &[(&str, &str)]) -> Moto {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        Moto::start_at(port, variables)
    }

    pub fn start_at(port: u16, variables: &[(&str, &str)]) -> Moto {
        let program = tools_dir().join("emulators/bin/moto_server");
        assert!(program.exists(), "moto is not installed: cargo xtask test --tools-only does that");
        let directory = tempfile::tempdir().unwrap();
        let process = Command::new(program)
            .args(["-H", "127.0.0.1", "-p", &port.to_string()])
            .env("MOTO_RECORDER_FILEPATH", directory.path().join("calls"))
            .envs(variables.iter().copied())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let moto = Moto { process, port, _directory: directory };
        eventually("moto listens", || TcpStream::connect(("127.0.0.1", port)).ok());
        moto
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Keeps a record of the calls from now on.
    pub fn record(&self) {
        for action in ["reset-recording", "start-recording"] {
            self.recorder("POST", action);
        }
    }

    /// The calls since [`Moto::record`] that change something.
    pub fn writes(&self) -> Vec<String> {
        self.recorded().into_iter().filter(|call| !is_read(call)).collect()
    }

    /// All calls since [`Moto::record`]: the name of the operation, or method and address where requests have none.
    pub fn recorded(&self) -> Vec<String> {
        let text = self.recorder("GET", "download-recording");
        text.lines().map(|line| call_name(&serde_json::from_str(line).unwrap())).collect()
    }

    fn recorder(&self, method: &str, action: &str) -> String {
        let (code, body) = self.s3(method, &format!("moto-api/recorder/{action}"));
        assert_eq!(code, 200, "{body}");
        body
    }

    /// Calls a service of the query protocol, unsigned.
    pub fn query(&self, service: &str, members: &[(&str, &str)]) -> String {
        let scope = format!(
            "AWS4-HMAC-SHA256 Credential=x/20260101/us-east-1/{service}/aws4_request, SignedHeaders=host, Signature=0"
        );
        let answer = ureq::post(format!("{}/", self.url())).header("authorization", scope);
        answer.send_form(members.iter().copied()).unwrap().body_mut().read_to_string().unwrap()
    }

    /// Asks S3 behind everybody's back: the code and the body. The emulator looks at no signature, only for whom it is.
    pub fn s3(&self, method: &str, path: &str) -> (u16, String) {
        let url = format!("{}/{path}", self.url());
        let scope = "AWS4-HMAC-SHA256 Credential=x/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0";
        let agent = ureq::Agent::config_builder().http_status_as_error(false).build().new_agent();
        let request = ureq::http::Request::builder().method(method).uri(url).header("authorization", scope);
        let mut answer = agent.run(request.body(()).unwrap()).unwrap();
        let body = answer.body_mut().read_to_string().unwrap();
        (answer.status().as_u16(), body)
    }
}

impl Drop for Moto {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn call_name(request: &Value) -> String {
    let header = |name: &str| {
        let all = request["headers"].as_object().into_iter().flatten();
        let found =
            all.filter(|(key, _)| key.eq_ignore_ascii_case(name)).find_map(|(_, value)| value.as_str());
        found.map(str::to_owned)
    };
    let body = request["body"].as_str().unwrap_or_default();
    let body = match request["body_encoded"].as_bool() {
        Some(true) => String::from_utf8_lossy(&STANDARD.decode(body).unwrap_or_default()).into_owned(),
        _ => body.to_owned(),
    };
    let action = body.split('&').find_map(|part| part.strip_prefix("Action="));
    let target =
        header("x-amz-target").map(|target| target.rsplit('.').next().unwrap_or_default().to_owned());
    target.or_else(|| action.map(str::to_owned)).unwrap_or_else(|| {
        format!(
            "{} {}",
            request["method"].as_str().unwrap_or_default(),
            request["url"].as_str().unwrap_or_default()
        )
    })
}

fn is_read(call: &str) -> bool {
    const READING: &[&str] = &["GET ", "HEAD ", "Get", "List", "Describe", "Head", "AssumeRole"];
    READING.iter().any(|beginning| call.starts_with(beginning))
}

pub fn server(moto: &Moto) -> Server {
    server_with(&moto.url(), &[])
}

/// With more flags.
pub fn server_with(url: &str, more: &[&str]) -> Server {
    Server::start_with(|_| flags(url, more))
}

pub fn flags(url: &str, more: &[&str]) -> Vec<String> {
    let flags = ["--aws-endpoint-url", url, "--aws-region", "us-east-1"];
    flags.iter().chain(more).map(|flag| (*flag).to_owned()).collect()
}

/// A control plane with credentials of its own.
pub fn control_plane(server: &Server, name: &str) -> ControlPlane {
    let plane = ControlPlane::create(server, name);
    with_credentials(&plane);
    plane
}

pub fn with_credentials(plane: &ControlPlane) {
    good(plane, &["create", "namespace", "ack-system"], "");
    give_credentials(plane, "key", "hidden");
}

/// Credentials of a control plane's own, in the place of those before.
pub fn give_credentials(plane: &ControlPlane, access: &str, hidden: &str) {
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "aws-credentials", "namespace": "ack-system"},
        "stringData": {"AWS_ACCESS_KEY_ID": access, "AWS_SECRET_ACCESS_KEY": hidden},
    });
    good(plane, &["apply", "-f", "-"], &secret.to_string());
}

pub fn resource(service: &str, kind: &str, name: &str, annotations: Value, spec: Value) -> String {
    json!({
        "apiVersion": format!("{service}.services.k8s.aws/v1alpha1"), "kind": kind,
        "metadata": {"name": name, "annotations": annotations}, "spec": spec,
    })
    .to_string()
}

pub fn bucket(name: &str, annotations: Value, spec: Value) -> String {
    resource("s3", "Bucket", name, annotations, spec)
}

pub fn synced(plane: &ControlPlane, kind: &str, name: &str) -> Value {
    eventually(&format!("{kind} {name} is synced"), || {
        Some(object(plane, kind, name)).filter(|object| is_true(object, "ACK.ResourceSynced"))
    })
}

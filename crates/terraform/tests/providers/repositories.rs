//! Modules that are in git: fetched by file and by http, at a version, with credentials, and with what is wrong said.

use std::path::{Path, PathBuf};
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value as Json, json};
use terraform::module::kinds::{DEFINITIONS, MODULES};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};

use super::plane::*;

const TOKEN: &str = "token-of-the-repository";

fn git(at: &Path, arguments: &[&str]) {
    let mut command = Command::new("git");
    command.current_dir(at).args([
        "-c",
        "user.name=t",
        "-c",
        "user.email=t@example.com",
        "-c",
        "commit.gpgsign=false",
    ]);
    let output = command.args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A bare repository below the directory of modules, with a tag `v1` and a branch `main` that is further on. The module is
/// in a directory of it and calls one beside it.
pub fn repository(plane: &Plane) -> PathBuf {
    let modules = plane.world.cloud.path().join("modules");
    let work = plane.world.cloud.path().join("work");
    std::fs::create_dir_all(work.join("part")).unwrap();
    std::fs::create_dir_all(work.join("whole")).unwrap();
    std::fs::create_dir_all(&modules).unwrap();
    git(&work, &["init", "--quiet", "--initial-branch=main", "."]);
    let part = "variable \"name\" {}\nresource \"shelf_thing\" \"this\" {\n  name = var.name\n}\n";
    std::fs::write(work.join("part/main.tf"), part).unwrap();
    let whole = |name: &str| {
        let text = format!("module \"part\" {{\n  source = \"../part\"\n  name   = \"{name}\"\n}}\n");
        std::fs::write(work.join("whole/main.tf"), text).unwrap();
        git(&work, &["add", "."]);
        git(&work, &["commit", "--quiet", "-m", name]);
    };
    whole("first");
    git(&work, &["tag", "v1"]);
    whole("second");
    let bare = modules.join("net.git");
    git(&modules, &["clone", "--quiet", "--bare", work.to_str().unwrap(), "net.git"]);
    git(&bare, &["update-server-info"]);
    bare
}

/// Files of a directory over http, to those who know the token.
async fn serve(directory: PathBuf) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let wanted =
        format!("authorization: basic {}", STANDARD.encode(format!("oauth2:{TOKEN}"))).to_lowercase();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let (directory, wanted) = (directory.clone(), wanted.clone());
            tokio::spawn(async move {
                let (reading, mut writing) = stream.split();
                let mut lines = BufReader::new(reading).lines();
                let first = lines.next_line().await.unwrap_or_default().unwrap_or_default();
                let mut known = false;
                while let Ok(Some(line)) = lines.next_line().await {
                    if line.is_empty() {
                        break;
                    }
                    known |= line.to_lowercase() == wanted;
                }
                let path = first.split(' ').nth(1).unwrap_or_default().split('?').next().unwrap_or_default();
                let file = std::fs::read(directory.join(path.trim_start_matches('/')));
                let (status, body) = match file {
                    _ if !known => ("401 Unauthorized", Vec::new()),
                    Ok(body) => ("200 OK", body),
                    Err(_) => ("404 Not Found", Vec::new()),
                };
                let head = format!(
                    "HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                    body.len()
                );
                let _ = writing.write_all(&[head.as_bytes(), &body].concat()).await;
            });
        }
    });
    format!("http://{address}")
}

pub fn module(git: Json) -> Json {
    json!({
        "apiVersion": "tf.kubeform.com/v1alpha1", "kind": "Module", "metadata": {"name": "net"},
        "spec": {"moduleRef": {"git": git}, "providerRef": {"name": "shelf"}},
    })
}

pub fn names(plane: &Plane) -> Vec<String> {
    plane.world.things().iter().map(|thing| thing["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn by_file() {
    let plane = Plane::new().await;
    plane.provider_secret().await;
    repository(&plane);
    plane.create(MODULES, module(json!({"ref": "file:///nowhere.git//whole"}))).await;
    plane.failed(MODULES, "net", "there is no module \"nowhere.git\" in the directory of modules").await;
    let to = async |git: Json| {
        plane.patch(MODULES, "net", json!({"spec": {"moduleRef": {"git": git}}})).await;
    };
    to(json!({"ref": "file:///net.git//whole", "checkOut": "v2"})).await;
    plane.failed(MODULES, "net", "v2").await;
    to(json!({"checkOut": "--upload-pack=touch"})).await;
    plane.failed(MODULES, "net", "is not a name of a branch, a tag or a commit").await;
    to(json!({"checkOut": "v1"})).await;
    plane.current(MODULES, "net").await;
    assert_eq!(names(&plane), ["first"]);
    // What is checked out by default.
    to(json!({"checkOut": null})).await;
    plane.until(MODULES, "net", |_| names(&plane) == ["second"]).await;
    // Nothing else of this machine is a repository.
    let elsewhere = plane.world.cloud.path().join("work").display().to_string();
    to(json!({"ref": format!("file://{elsewhere}//whole")})).await;
    plane.failed(MODULES, "net", "in the directory of modules").await;
    to(json!({"ref": "ext::sh -c touch% /tmp/x"})).await;
    plane.failed(MODULES, "net", "ext").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn by_http() {
    let plane = Plane::new().await;
    plane.provider_secret().await;
    let bare = repository(&plane);
    let served = tempfile::TempDir::new().unwrap();
    // Where no file can be read but by http.
    std::fs::rename(bare, served.path().join("net.git")).unwrap();
    let address = serve(served.path().to_owned()).await;
    let reference = format!("{address}/net.git//whole");
    plane.create(MODULES, module(json!({"ref": reference, "checkOut": "v1"}))).await;
    plane.failed(MODULES, "net", &format!("{address}/net.git: ")).await;
    assert!(plane.world.things().is_empty());
    // Kubeform's way: a definition with a Secret that has the token.
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "git"}, "stringData": {"token": TOKEN},
    });
    plane.create("secrets", secret).await;
    let definition = json!({
        "apiVersion": "tf.kubeform.com/v1alpha1", "kind": "ModuleDefinition", "metadata": {"name": "net"},
        "spec": {
            "moduleRef": {"git": {"ref": reference, "checkOut": "v1", "cred": {"name": "git"}}},
            "provider": {"name": "shelf", "source": "example/shelf"},
        },
    });
    plane.create(DEFINITIONS, definition).await;
    plane.patch(MODULES, "net", json!({"spec": {"moduleDef": "net", "moduleRef": null}})).await;
    let object = plane.current(MODULES, "net").await;
    assert_eq!(names(&plane), ["first"]);
    assert!(!object.to_string().contains(TOKEN));
}

//! Mirrors of both kinds, with what can be wrong with them.

use std::convert::Infallible;
use std::io::Write;
use std::path::Path;

use http::{Request, Response};
use http_body_util::Full;
use hyper_util::rt::TokioIo;
use prost::bytes::Bytes;
use tempfile::TempDir;

use super::*;

fn zip(path: &Path, files: &[(&str, &str)]) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut zip = zip::ZipWriter::new(std::fs::File::create(path).unwrap());
    for (name, content) in files {
        zip.start_file(*name, zip::write::SimpleFileOptions::default()).unwrap();
        zip.write_all(content.as_bytes()).unwrap();
    }
    zip.finish().unwrap();
}

fn packed(root: &Path, version: &str, platform: &str, content: &str) -> PathBuf {
    let name = format!("terraform-provider-demo_{version}_{platform}.zip");
    let path = root.join("example.com/test/demo").join(name);
    zip(&path, &[(&format!("terraform-provider-demo_v{version}"), content), ("LICENSE", "do")]);
    path
}

fn wanted(constraint: &str) -> Wanted {
    Wanted {
        address: Address::parse("example.com/test/demo").unwrap(),
        constraint: Constraint::parse(constraint).unwrap(),
        hashes: Vec::new(),
    }
}

struct Mirrors {
    root: TempDir,
    cache: TempDir,
}

impl Mirrors {
    fn new() -> Mirrors {
        Mirrors { root: TempDir::new().unwrap(), cache: TempDir::new().unwrap() }
    }

    async fn find(&self, wanted: &Wanted) -> Result<Found, SourceError> {
        from_mirror(&Mirror::Directory(self.root.path().to_owned()), wanted, self.cache.path()).await
    }
}

#[test]
fn addresses() {
    fn check(text: &str, expected: Option<&str>) {
        assert_eq!(
            Address::parse(text).ok().map(|address| address.to_string()).as_deref(),
            expected,
            "{text}"
        );
    }
    check("random", Some("registry.terraform.io/hashicorp/random"));
    check("linode/linode", Some("registry.terraform.io/linode/linode"));
    check("Example.com/a/b", Some("example.com/a/b"));
    for wrong in ["", "a/b/c/d", "../a/b", "a//b", "a b/c"] {
        check(wrong, None);
    }
}

#[tokio::test]
async fn the_newest_that_fits() {
    let mirrors = Mirrors::new();
    let own = platform();
    for version in ["1.0.0", "1.2.0", "2.0.0", "3.0.0-beta"] {
        packed(mirrors.root.path(), version, &own, version);
    }
    // One of them unpacked.
    let unpacked = mirrors.root.path().join("example.com/test/demo/1.3.0").join(&own);
    std::fs::create_dir_all(&unpacked).unwrap();
    std::fs::write(unpacked.join("terraform-provider-demo"), "1.3.0").unwrap();
    for (constraint, expected) in [("", "2.0.0"), ("~> 1.0", "1.3.0"), ("< 1.1", "1.0.0"), ("1.2", "1.2.0")] {
        let found = mirrors.find(&wanted(constraint)).await.unwrap();
        assert_eq!(found.version.unwrap().to_string(), expected, "{constraint}");
        assert_eq!(std::fs::read_to_string(&found.program).unwrap(), expected);
    }
    let error = mirrors.find(&wanted("~> 4.0")).await.unwrap_err().to_string();
    assert!(
        error.ends_with("that fits \"~> 4.0\"; it has 3.0.0-beta, 2.0.0, 1.3.0, 1.2.0, 1.0.0"),
        "{error}"
    );
    let other = Wanted { address: Address::parse("example.com/test/other").unwrap(), ..wanted("") };
    let error = mirrors.find(&other).await.unwrap_err();
    assert!(matches!(error, SourceError::NoProvider { .. }), "{error}");
}

#[tokio::test]
async fn for_other_machines_only() {
    let mirrors = Mirrors::new();
    packed(mirrors.root.path(), "1.0.0", "plan9_mips", "x");
    packed(mirrors.root.path(), "1.0.0", "darwin_arm64", "x");
    let error = mirrors.find(&wanted("")).await.unwrap_err().to_string();
    assert!(
        error.contains(
            "has example.com/test/demo 1.0.0 only for darwin_arm64, plan9_mips, and this machine is"
        )
    );
}

#[tokio::test]
async fn checksums() {
    let mirrors = Mirrors::new();
    let archive = packed(mirrors.root.path(), "1.0.0", &platform(), "program");
    let found = mirrors.find(&wanted("")).await.unwrap();
    let zh = of_zip(&archive).unwrap();
    let with = |hashes: Vec<String>| Wanted { hashes, ..wanted("") };
    // Any of those that we can compute, beside others that we cannot.
    mirrors.find(&with(vec![found.hashes[0].clone(), "zh:00".into(), zh.clone()])).await.unwrap();
    for wrong in ["h1:AAAA", "zh:00"] {
        let error = mirrors.find(&with(vec![wrong.into()])).await.unwrap_err();
        assert!(matches!(error, SourceError::Checksum { .. }), "{wrong}: {error}");
    }
    // Another content under the same version, after the first was locked.
    packed(mirrors.root.path(), "1.0.0", &platform(), "tampered");
    let error = Mirrors { root: mirrors.root, cache: TempDir::new().unwrap() }
        .find(&with(found.hashes))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("it may have been tampered with"), "{error}");
}

#[test]
fn as_go_computes_it() {
    // sha256 over "<digest of a>  a\n<digest of b>  b\n", in base64.
    let directory = TempDir::new().unwrap();
    std::fs::write(directory.path().join("b"), "beta\n").unwrap();
    std::fs::write(directory.path().join("a"), "alpha\n").unwrap();
    assert_eq!(of_directory(directory.path()).unwrap(), EXPECTED_H1);
}

const EXPECTED_H1: &str = "h1:KLm/Y8Fi5amfbQ212RFOqb242w9v/TegIhXCdXzuPeU=";

#[tokio::test]
async fn archives_that_are_none() {
    let mirrors = Mirrors::new();
    let path = mirrors
        .root
        .path()
        .join("example.com/test/demo")
        .join(format!("terraform-provider-demo_1.0.0_{}.zip", platform()));
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, "no zip").unwrap();
    assert!(matches!(mirrors.find(&wanted("")).await.unwrap_err(), SourceError::Archive(..)));
    zip(&path, &[("../../evil", "x")]);
    assert!(matches!(mirrors.find(&wanted("")).await.unwrap_err(), SourceError::Archive(..)));
    zip(&path, &[("README", "x")]);
    let error = mirrors.find(&wanted("")).await.unwrap_err().to_string();
    assert!(error.ends_with("there is no terraform-provider-demo in it"), "{error}");
}

/// A web server with the files of a directory.
async fn serve(root: PathBuf) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mirror/", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let root = root.clone();
            let service = hyper::service::service_fn(move |request: Request<hyper::body::Incoming>| {
                let path = root.join(request.uri().path().trim_start_matches("/mirror/"));
                async move {
                    let answer = match std::fs::read(path) {
                        Ok(bytes) => Response::new(Full::new(Bytes::from(bytes))),
                        Err(_) => Response::builder().status(404).body(Full::default()).unwrap(),
                    };
                    Ok::<_, Infallible>(answer)
                }
            });
            tokio::spawn(
                hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service),
            );
        }
    });
    url
}

#[tokio::test]
async fn over_the_network() {
    let mirrors = Mirrors::new();
    let root = mirrors.root.path().join("example.com/test/demo");
    let archive = packed(mirrors.root.path(), "1.0.0", &platform(), "program");
    let describe = |hash: &str| {
        let name = archive.file_name().unwrap().to_str().unwrap();
        let archives = serde_json::json!({platform(): {"url": name, "hashes": [hash]}});
        std::fs::write(root.join("1.0.0.json"), serde_json::json!({"archives": archives}).to_string())
            .unwrap();
    };
    std::fs::write(root.join("index.json"), r#"{"versions": {"1.0.0": {}, "0.9.0": {}}}"#).unwrap();
    let mirror = Mirror::network(&serve(mirrors.root.path().to_owned()).await).unwrap();
    describe("zh:00");
    let error = from_mirror(&mirror, &wanted(""), mirrors.cache.path()).await.unwrap_err();
    assert!(matches!(error, SourceError::Checksum { .. }), "{error}");
    describe(&of_zip(&archive).unwrap());
    let found = from_mirror(&mirror, &wanted(""), mirrors.cache.path()).await.unwrap();
    assert_eq!(std::fs::read_to_string(&found.program).unwrap(), "program");
    // From the cache, without the archive.
    std::fs::remove_file(&archive).unwrap();
    assert_eq!(from_mirror(&mirror, &wanted("1.0.0"), mirrors.cache.path()).await.unwrap(), found);
    let error = from_mirror(&mirror, &wanted("0.9.0"), mirrors.cache.path()).await.unwrap_err();
    assert!(matches!(error, SourceError::NoProvider { .. }), "{error}");
    let other = Wanted { address: Address::parse("a/b").unwrap(), ..wanted("") };
    let error = from_mirror(&mirror, &other, mirrors.cache.path()).await.unwrap_err();
    assert!(matches!(error, SourceError::NoProvider { .. }), "{error}");
    for elsewhere in ["http://example.com/", "http://localhost.example.com/", "http://127.0.0.1@example.com/"]
    {
        assert!(Mirror::network(elsewhere).is_err(), "{elsewhere}");
    }
    // Nor does a mirror lead there.
    let archives = serde_json::json!({platform(): {"url": "http://localhost.example.com/a.zip"}});
    std::fs::write(root.join("0.9.0.json"), serde_json::json!({"archives": archives}).to_string()).unwrap();
    let error = from_mirror(&mirror, &wanted("0.9.0"), mirrors.cache.path()).await.unwrap_err().to_string();
    assert!(error.contains("only https is fetched from other machines"), "{error}");
}

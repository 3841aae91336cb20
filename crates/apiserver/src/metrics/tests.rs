use http::{Request, header};

use crate::fixture::{Fixture, HOST, administrator, text};

async fn scrape(fixture: &Fixture, plane: &str) -> String {
    let (code, text) = fixture.ask(plane, "GET", "/metrics", "").await;
    assert_eq!(code, 200, "{text}");
    text
}

#[track_caller]
fn check(text: &str, line: &str) {
    assert!(text.lines().any(|found| found == line), "no {line} in\n{text}");
}

#[tokio::test]
async fn requests_are_counted_by_what_they_ask() {
    let fixture = Fixture::new().await;
    for name in ["x", "y", "y"] {
        let object = format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}"}}}}"#);
        fixture.ask("a", "POST", "/api/v1/namespaces/default/configmaps", &object).await;
    }
    fixture.ask(HOST, "GET", "/apis/apps/v1/namespaces/default/deployments/d/scale", "").await;
    fixture.ask(HOST, "GET", "/api/v1/nonsense", "").await;
    fixture.ask(HOST, "GET", "/healthz/ping", "").await;
    let request = Request::builder().uri("/api/v1/namespaces?watch=1");
    let watch = fixture.send(administrator("a"), request, "").await;

    let text = scrape(&fixture, HOST).await;
    let created = r#"component="apiserver",group="",resource="configmaps",scope="resource",subresource="",verb="POST",version="v1""#;
    check(&text, "# TYPE apiserver_request_total counter");
    check(&text, &format!("apiserver_request_total{{code=\"201\",{created}}} 2"));
    check(&text, &format!("apiserver_request_total{{code=\"409\",{created}}} 1"));
    check(&text, &format!("apiserver_request_duration_seconds_count{{{created}}} 3"));
    check(&text, &format!("apiserver_request_duration_seconds_bucket{{le=\"+Inf\",{created}}} 3"));
    let scale =
        r#"group="apps",resource="deployments",scope="resource",subresource="scale",verb="GET",version="v1""#;
    check(&text, &format!("apiserver_request_total{{code=\"404\",component=\"apiserver\",{scale}}} 1"));
    let unknown = r#"group="",resource="",scope="cluster",subresource="",verb="LIST",version="""#;
    check(&text, &format!("apiserver_request_total{{code=\"404\",component=\"apiserver\",{unknown}}} 1"));
    let health = r#"group="",resource="",scope="",subresource="/healthz",verb="GET",version="""#;
    check(&text, &format!("apiserver_request_total{{code=\"200\",component=\"apiserver\",{health}}} 1"));
    check(&text, r#"apiserver_current_inflight_requests{request_kind="readOnly"} 1"#);
    let watched =
        r#"group="",resource="namespaces",scope="cluster",subresource="",verb="WATCH",version="v1""#;
    check(&text, &format!("apiserver_longrunning_requests{{component=\"apiserver\",{watched}}} 1"));
    // The four namespaces that every control plane has.
    check(&text, r#"apiserver_watch_events_total{group="",resource="namespaces",version="v1"} 4"#);
    check(&text, r#"hangar_store_failures_total{operation="write"} 0"#);
    assert!(text.contains(r#"hangar_store_operation_duration_seconds_count{operation="write"}"#));
    assert!(text.contains("process_resident_memory_bytes ") && text.contains("process_cpu_seconds_total "));

    drop(watch);
    let text = scrape(&fixture, HOST).await;
    check(&text, &format!("apiserver_longrunning_requests{{component=\"apiserver\",{watched}}} 0"));
}

#[tokio::test]
async fn a_control_plane_sees_nothing_of_its_neighbours() {
    let fixture = Fixture::new().await;
    fixture.ask(HOST, "GET", "/api/v1/namespaces", "").await;
    let text = scrape(&fixture, "a").await;
    let mut names: Vec<&str> = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split([' ', '{']).next().unwrap())
        .collect();
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "apiserver_current_inflight_requests",
            "apiserver_longrunning_requests",
            "apiserver_storage_size_bytes",
            "kubernetes_build_info"
        ]
    );
    check(&text, "apiserver_current_inflight_requests 1");
}

#[tokio::test]
async fn both_text_formats() {
    let fixture = Fixture::new().await;
    let request =
        Request::builder().uri("/metrics").header("accept", "application/openmetrics-text;version=1.0.0");
    let response = fixture.send(administrator(HOST), request, "").await;
    assert!(
        response.headers()[header::CONTENT_TYPE]
            .to_str()
            .unwrap()
            .starts_with("application/openmetrics-text")
    );
    let open = text(response).await;
    check(&open, "# TYPE apiserver_request counter");
    assert!(open.ends_with("# EOF\n"));
    assert!(!scrape(&fixture, HOST).await.contains("# EOF"));
}

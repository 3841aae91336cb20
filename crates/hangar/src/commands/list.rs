//! `list`: the control planes there are.

use std::fmt::Write as _;
use std::io::Write as _;

use anyhow::{Context, bail};
use clap::Args;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Session, condition, condition_status, name_of, type_of};
use crate::api;
use crate::kubeconfig::{Kubeconfig, List as Lists};

#[derive(Args, Clone, Debug, Default)]
pub struct List {
    /// json, yaml, wide or name
    #[arg(short, long, value_name = "FORMAT", default_value = "")]
    pub output: String,
}

pub async fn run(session: &Session, list: List) -> anyhow::Result<()> {
    if !matches!(list.output.as_str(), "" | "json" | "yaml" | "wide" | "name") {
        bail!("unsupported output format: {:?} (use json, yaml, wide or name)", list.output);
    }
    let kubeconfig = session.files.load()?;
    let hosting = session.hosting(&kubeconfig).await?;
    let listed = hosting.api.list(api::CONTROL_PLANES).await.context("error listing control planes")?;
    print(&shown(listed, &list.output, &kubeconfig, Timestamp::now()))
}

/// To a reader who may have gone: `hangar list | head -1` is no failure.
pub fn print(text: &str) -> anyhow::Result<()> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error).context("cannot write"),
        _ => Ok(()),
    }
}

fn shown(mut items: Vec<Value>, output: &str, kubeconfig: &Kubeconfig, now: Timestamp) -> String {
    items.sort_by(|a, b| name_of(a).cmp(name_of(b)));
    match output {
        "json" | "yaml" => {
            let list = json!({"apiVersion": "v1", "kind": "List", "items": items, "metadata": {"resourceVersion": ""}});
            if output == "json" { format!("{list:#}\n") } else { wire::yaml::encode(&list) }
        }
        "name" => items.iter().fold(String::new(), |mut text, item| {
            let _ = writeln!(text, "controlplane.tenancy.kflex.kubestellar.org/{}", name_of(item));
            text
        }),
        _ if items.is_empty() => "No control planes found.\n".to_owned(),
        "wide" => table(&items, now, Some(kubeconfig)),
        _ => table(&items, now, None),
    }
}

/// KubeFlex's table, and more columns to the right for whoever wants them.
fn table(items: &[Value], now: Timestamp, wide: Option<&Kubeconfig>) -> String {
    let mut text = "Control Planes:\n".to_owned();
    let mut row = |cells: [&str; 5], more: Option<[&str; 4]>| {
        let [name, synced, ready, kind, age] = cells;
        let _ = write!(text, "{name:<20} {synced:<10} {ready:<10} {kind:<10} {age:<10}");
        if let Some([store, context, endpoint, message]) = more {
            let _ = write!(text, " {store:<12} {context:<20} {endpoint:<50} {message}");
        }
        text.push('\n');
    };
    row(
        ["NAME", "SYNCED", "READY", "TYPE", "AGE"],
        wide.map(|_| ["STORE", "CONTEXT", "ENDPOINT", "MESSAGE"]),
    );
    for item in items {
        let created = item["metadata"]["creationTimestamp"].as_str().unwrap_or_default();
        let age =
            created.parse::<Timestamp>().map(|created| go_duration(now.duration_since(created).as_secs()));
        let cells = [
            name_of(item),
            condition_status(item, "Synced"),
            condition_status(item, "Ready"),
            type_of(item),
            &age.unwrap_or_else(|_| "<unknown>".to_owned()),
        ];
        let more = wide.map(|kubeconfig| {
            let of = |context: &&str| kubeconfig.control_plane_of(context) == Some(name_of(item));
            let context = kubeconfig.names(Lists::Contexts).into_iter().find(of).unwrap_or("-");
            let endpoint = item["status"]["endpoint"].as_str().unwrap_or("-");
            let message = ["Deleting", "Synced", "Ready"].into_iter().find_map(|kind| {
                condition(item, kind)?["message"].as_str().filter(|message| !message.is_empty())
            });
            let store = item["status"]["store"].as_str().unwrap_or("-");
            [store, context, endpoint, message.unwrap_or("-")]
        });
        row(cells, more);
    }
    text
}

/// Whole seconds as Go writes a duration.
fn go_duration(seconds: i64) -> String {
    let sign = if seconds < 0 { "-" } else { "" };
    let seconds = seconds.unsigned_abs();
    let (hours, minutes, rest) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    match (hours, minutes) {
        (0, 0) => format!("{sign}{rest}s"),
        (0, _) => format!("{sign}{minutes}m{rest}s"),
        _ => format!("{sign}{hours}h{minutes}m{rest}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_as_go_writes_them() {
        for (seconds, expected) in
            [(0, "0s"), (59, "59s"), (60, "1m0s"), (3_723, "1h2m3s"), (172_800, "48h0m0s")]
        {
            assert_eq!(go_duration(seconds), expected);
        }
    }

    #[test]
    fn forms() {
        let now: Timestamp = "2026-01-02T01:02:03Z".parse().unwrap();
        let none = Kubeconfig::parse(b"").unwrap();
        let conditions = json!([
            {"type": "Synced", "status": "True"}, {"type": "Ready", "status": "False", "message": "soon"},
        ]);
        let items = vec![
            json!({"metadata": {"name": "b", "creationTimestamp": "2026-01-02T00:00:00Z"}, "spec": {"type": "vcluster"},
                "status": {"conditions": conditions, "endpoint": "https://e"}}),
            json!({"metadata": {"name": "a", "creationTimestamp": "2026-01-02T01:02:00Z"}, "spec": {"type": "k8s"}}),
        ];
        let check =
            |output: &str, expected: &str| assert_eq!(shown(items.clone(), output, &none, now), expected);
        check(
            "",
            "Control Planes:
NAME                 SYNCED     READY      TYPE       AGE       \n\
a                    Unknown    Unknown    k8s        3s        \n\
b                    True       False      vcluster   1h2m3s    \n",
        );
        check(
            "name",
            "controlplane.tenancy.kflex.kubestellar.org/a\ncontrolplane.tenancy.kflex.kubestellar.org/b\n",
        );
        let wide = shown(items.clone(), "wide", &none, now);
        assert!(wide.lines().nth(3).unwrap().ends_with(" soon"), "{wide}");
        assert!(wide.contains("https://e"));
        let json: Value = serde_json::from_str(&shown(items.clone(), "json", &none, now)).unwrap();
        assert_eq!((&json["kind"], json["items"].as_array().unwrap().len()), (&json!("List"), 2));
        assert_eq!(shown(Vec::new(), "", &none, now), "No control planes found.\n");
    }
}

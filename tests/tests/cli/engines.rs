//! The thread of a day with control planes, on every store that a server can be on.

use end_to_end::{Engine, Server};

use super::{Desk, extension_data};

/// Types that have contexts of their own.
const HOSTED: [&str; 4] = ["k8s", "k3s", "ocm", "vcluster"];

#[test]
fn a_day_on_the_embedded_store() {
    a_day_on(Engine::Embedded);
}

#[test]
fn a_day_on_postgresql() {
    a_day_on(Engine::Postgres);
}

#[test]
fn a_day_on_etcd() {
    a_day_on(Engine::Etcd);
}

/// The rows of `list`, without ages.
fn listed(desk: &Desk) -> Vec<String> {
    let said = desk.kflex("list").ok();
    let row = |line: &str| line.split_whitespace().take(4).collect::<Vec<_>>().join(" ");
    said.lines().skip(2).map(row).collect()
}

fn a_day_on(engine: Engine) {
    let mut server = Server::start_on(engine);
    let desk = Desk::beside(&server);
    let before = desk.config();
    assert_eq!(desk.kflex("list").ok(), "No control planes found.\n");

    for kind in HOSTED {
        desk.kflex(&format!("create a-{kind} --type {kind}")).ok();
        assert_eq!(desk.current(), format!("a-{kind}"));
        assert_eq!(extension_data(&desk.config(), &desk.current())["controlplane-name"], desk.current());
        desk.kubectl(&format!("create namespace of-{kind}")).ok();
    }
    assert_eq!(desk.kflex("create its --type host").code, 0);
    assert_eq!(desk.current(), "hangar");
    desk.kflex("create its --type host").refused("already exists");
    desk.hangar("adopt other --adopted-context a-k8s --wait").ok();
    let all = [
        "a-k3s True True k3s",
        "a-k8s True True k8s",
        "a-ocm True True ocm",
        "a-vcluster True True vcluster",
        "its True True host",
        "other True True external",
    ];
    assert_eq!(listed(&desk), all);

    // Each has its own, and nothing of the others; also after a restart.
    for restarted in [false, true] {
        if restarted {
            server.restart();
            assert_eq!(listed(&desk), all);
        }
        for (own, other) in HOSTED.into_iter().zip(HOSTED.into_iter().cycle().skip(1)) {
            let find =
                |kind: &str| desk.kubectl(&format!("--context a-{own} get namespace of-{kind} -o name"));
            assert_eq!(find(own).ok(), format!("namespace/of-{own}\n"));
            find(other).refused("not found");
        }
    }
    desk.hangar("ctx other");
    assert_eq!(desk.current(), "other");
    assert_eq!(desk.kubectl("get namespace of-k8s -o name").ok(), "namespace/of-k8s\n");
    desk.kflex("ctx a-k3s").ok();
    desk.kflex("ctx rename a-k3s mine -S").ok();
    assert_eq!(desk.kubectl("get namespace of-k3s -o name").ok(), "namespace/of-k3s\n");
    desk.kflex("ctx rename mine a-k3s").ok();
    assert_eq!((desk.kflex("ctx").code, desk.current().as_str()), (0, "hangar"));

    desk.hangar("fork a-k8s copy").ok();
    assert_eq!(desk.kubectl("get namespace of-k8s -o name").ok(), "namespace/of-k8s\n");
    assert_eq!(desk.hangar("diff a-k8s copy").ok(), "");
    let backup = desk.home.path().join("backup");
    desk.hangar(&format!("backup a-k3s {}", backup.display())).ok();
    desk.hangar(&format!("restore back {} --no-switch", backup.display())).ok();
    assert_eq!(desk.hangar("diff a-k3s back").ok(), "");
    desk.hangar("delete back").ok();
    desk.hangar("delete copy").ok();

    desk.hangar("delete other").ok();
    desk.kflex("delete its").ok();
    for kind in HOSTED {
        desk.kflex(&format!("delete a-{kind}")).ok();
        desk.kubectl(&format!("get namespace a-{kind}-system")).refused("not found");
    }
    assert_eq!(desk.kflex("list").ok(), "No control planes found.\n");
    for list in ["clusters", "users", "contexts"] {
        assert_eq!(desk.named(list, "a-"), [""; 0], "{list}");
    }
    desk.others_are_untouched(&before);
}

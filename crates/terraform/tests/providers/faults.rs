//! A provider that hangs, dies, floods or talks nonsense harms its own users, and says so in one sentence.

use std::time::Duration;

use terraform::plugin::{Launch, Limits, PluginError, State};

use super::world::*;

fn impatient() -> World {
    World::with(|settings| {
        // Enough for 100 MB, and for a provider that starts, on a loaded machine.
        let look = Duration::from_secs(12);
        settings.limits = Limits { start: look, look, change: look, answer_bytes: 64 << 20 };
    })
}

#[tokio::test]
async fn before_they_are_ready() {
    async fn check(launch: Launch, expected: &str) {
        let world = impatient();
        let error = world.pool.lease(&launch, DIGEST, &world.config()).await.err().expect(expected);
        assert_eq!(error.to_string(), expected);
        assert_eq!(world.pool.running(), 0);
    }
    check(faulty("hang-start"), "provider shelf did not say within 12 seconds where it listens").await;
    check(
        faulty("exit"),
        "provider shelf ended (exit status: 3) before it said where it listens: the shelf is closed",
    )
    .await;
    check(
        faulty("not-a-plugin"),
        "provider shelf does not speak the plugin protocol: its first line is not a handshake",
    )
    .await;
    check(faulty("protocol-4"), "provider shelf speaks plugin protocol 4; this host speaks 5 and 6").await;
    check(faulty("GetSchema: huge"), "the provider answered GetProviderSchema with more than 67108864 bytes")
        .await;
    check(
        faulty("GetSchema: garbage"),
        "the provider answered GetProviderSchema with what is no answer: it is not valid protobuf",
    )
    .await;
    check(faulty("GetSchema: hang"), "the provider did not answer GetProviderSchema within 12 seconds").await;
    check(faulty("Configure: fail"), "the provider failed in ConfigureProvider: the shelf is out of order")
        .await;
    check(
        Launch::new("/nowhere/terraform-provider-x"),
        "provider terraform-provider-x cannot be started: No such file or directory (os error 2)",
    )
    .await;
}

#[tokio::test]
async fn for_another_machine() {
    let world = impatient();
    let program = world.cloud.path().join("terraform-provider-foreign");
    // An ELF header of a machine that nobody has.
    let mut header = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0];
    header.resize(64, 0xee);
    std::fs::write(&program, header).unwrap();
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let error = world.pool.lease(&Launch::new(program), DIGEST, &world.config()).await.err().unwrap();
    assert!(matches!(error, PluginError::WrongArchitecture { .. }), "{error}");
}

#[tokio::test]
async fn a_flood_is_read_and_dropped() {
    let world = World::new();
    let launch = faulty("flood");
    // What it writes first may be anything; here the handshake may drown.
    for _ in 0..10 {
        match world.pool.lease(&launch, DIGEST, &world.config()).await {
            Ok(lease) => {
                create(&lease, simple()).await;
                return;
            }
            Err(PluginError::Handshake { .. } | PluginError::BackingOff { .. }) => {
                tokio::time::sleep(Duration::from_millis(300)).await;
            }
            Err(error) => panic!("{error}"),
        }
    }
}

#[tokio::test]
async fn in_the_middle_of_a_call() {
    async fn check(fault: &str, expected: &str, survives: bool) {
        let world = impatient();
        let lease = world.lease().await;
        let state = create(&lease, simple()).await;
        world.fault(fault);
        let error = match fault.split_once(": ").unwrap().0 {
            "ReadResource" => lease.judge(lease.read(THING, &state).await).err(),
            "PlanResourceChange" => lease.judge(plan(&lease, &state, simple()).await).err(),
            _ => {
                let (config, planned) = plan(&lease, &State::none(), simple()).await.unwrap();
                lease.judge(lease.apply(THING, &State::none(), &planned, &config, None).await).err()
            }
        };
        assert_eq!(error.expect(fault).to_string(), expected);
        let process = lease.process_id();
        world.fault("");
        drop(lease);
        // Those who come later get a process that works, after a pause if the old one is lost.
        let lease = loop {
            match world.pool.lease(&Launch::new(shelf_program()), DIGEST, &world.config()).await {
                Ok(lease) => break lease,
                Err(PluginError::BackingOff { wait, .. }) => tokio::time::sleep(wait).await,
                Err(error) => panic!("{error}"),
            }
        };
        assert_eq!(lease.process_id() == process, survives, "{fault}");
        assert!(lease.read(THING, &state).await.unwrap().answer.is_some());
    }
    check("ReadResource: die", "the provider ended during ReadResource (exit status: 42)", false).await;
    check("ReadResource: hang", "the provider did not answer ReadResource within 12 seconds", false).await;
    check("ReadResource: fail", "the provider failed in ReadResource: the shelf is out of order", true).await;
    check(
        "ReadResource: garbage",
        "the provider answered ReadResource with what is no answer: it is not valid protobuf",
        true,
    )
    .await;
    check(
        "PlanResourceChange: bad-msgpack",
        "the provider answered PlanResourceChange with what is no answer: expected an object, found a byte that means nothing",
        true,
    )
    .await;
    check(
        "ApplyResourceChange: unknown",
        "the provider answered ApplyResourceChange with what is no answer: values in it are still unknown",
        true,
    )
    .await;
    check(
        "ApplyResourceChange: die-after",
        "the provider ended during ApplyResourceChange (exit status: 43)",
        false,
    )
    .await;
    check(
        "ApplyResourceChange: huge",
        "the provider answered ApplyResourceChange with more than 67108864 bytes",
        true,
    )
    .await;
}

/// What was never sent was never done: only what may have reached the provider is in doubt.
#[tokio::test]
async fn before_a_call_is_sent() {
    let world = World::new();
    let lease = world.lease().await;
    let (config, planned) = plan(&lease, &State::none(), simple()).await.unwrap();
    let process = lease.process_id().unwrap().to_string();
    assert!(std::process::Command::new("kill").args(["-9", &process]).status().unwrap().success());
    // A call that comes before its end is noticed finds no connection, or loses it.
    while !lease.has_ended() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let error = lease.apply(THING, &State::none(), &planned, &config, None).await.unwrap_err();
    assert!(matches!(error, PluginError::Unsent { .. }) && error.is_fatal(), "{error}");
    assert!(world.things().is_empty());
}

/// A panic in one call of a provider on tokio or in Go's server ends that call, or the process; never us.
#[tokio::test]
async fn a_panic() {
    let world = impatient();
    let lease = world.lease().await;
    let state = create(&lease, simple()).await;
    world.fault("ReadResource: panic");
    let error = lease.read(THING, &state).await.unwrap_err();
    assert!(
        matches!(error, PluginError::Died { .. } | PluginError::Failed { .. } | PluginError::TimedOut { .. }),
        "{error}"
    );
}

#[tokio::test]
async fn others_do_not_notice() {
    let world = impatient();
    let healthy = World::new();
    let lease = healthy.lease().await;
    let state = create(&lease, simple()).await;
    let sick = world.lease().await;
    world.fault("ReadResource: hang");
    let (hung, fine) = tokio::join!(sick.read(THING, &state), lease.read(THING, &state));
    assert!(hung.is_err() && fine.is_ok());
}

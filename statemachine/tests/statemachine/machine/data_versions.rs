//! The version of the data: that of the kind that wrote it, as long as the data stays.

use windlass_statemachine::machine::Config;
use windlass_statemachine::{Command, Message, Retry, TaskState};

use crate::common::{Rig, config, json, t0};

/// A task with data of version 2, on a node that writes version 3.
fn upgraded() -> Rig {
    let mut state = TaskState::new(t0());
    (state.data, state.data_version) = (Some(json("1")), 2);
    let config = Config {
        data_version: 3,
        ..config(Retry::default())
    };
    let mut rig = Rig::with(config, state, false);
    assert_eq!(rig.begin(), ["start 1"]);
    rig
}

fn written(rig: &Rig) -> (Option<String>, u32) {
    let state = rig.written();
    let data = state.data.as_ref().map(|data| data.as_str().to_owned());
    (data, state.data_version)
}

#[test]
fn what_brings_no_data_leaves_the_version() {
    for message in [
        Message::run(),
        Message::pause(),
        Message::release(),
        Message::error("no"),
        Message::complete(),
    ] {
        let mut rig = upgraded();
        rig.returned(message.clone());
        assert_eq!(written(&rig), (Some("1".into()), 2), "{message:?}");
    }
}

#[test]
fn data_has_the_version_of_the_kind_that_wrote_it() {
    let mut rig = upgraded();
    rig.checkpoint(1, "7");
    assert_eq!(written(&rig), (Some("7".into()), 3));
    for message in [Message::run(), Message::error("no"), Message::complete()] {
        let mut rig = upgraded();
        rig.returned(message.with_data(&7));
        assert_eq!(written(&rig), (Some("7".into()), 3));
    }
}

#[test]
fn data_that_is_kept_beside_a_kill_or_a_command_has_its_version() {
    for command in [Command::Kill, Command::Pause] {
        let mut rig = upgraded();
        rig.command(command);
        rig.returned(Message::release().with_data(&7));
        assert_eq!(written(&rig), (Some("7".into()), 3));
    }
}

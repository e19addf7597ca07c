//! Operations that are alone in their transaction.

use super::*;

/// Returns each operation for which a store reads the head of a task alone.
fn on_the_head() -> Vec<Operation> {
    let send = |name: &str, command| SendCommand::new(id("a"), name.parse().unwrap(), command);
    let of_another = SendCommand::new(id("b"), "c".parse().unwrap(), Command::Pause);
    let too_large = Command::Complete {
        result: Some(Json::new("result", &"x".repeat(18)).unwrap()),
    };
    vec![
        Operation::Send(send("new", Command::Pause)),
        Operation::Send(send("c", Command::Pause)),
        Operation::Send(send("large", too_large)),
        Operation::Send(of_another),
        Operation::Delete(id("a").into()),
        Operation::Delete(windlass_statemachine::Delete::new(id("a")).forced()),
    ]
}

#[test]
fn a_decision_on_the_head_of_a_task_is_the_one_on_the_whole_task() {
    let lost = Present {
        is_lost: true,
        ..present(TaskStatus::Runnable)
    };
    let all = [
        None,
        Some(present(TaskStatus::Runnable)),
        Some(present(TaskStatus::Failed)),
        Some(claimed()),
        Some(quarantined()),
        Some(lost),
    ];
    for operation in on_the_head() {
        let transaction = Transaction::from(operation);
        assert_eq!(Need::of(&transaction), Need::Head);
        for whole in all.clone() {
            let head = whole.clone().map(|whole| Present {
                task: Err(Present::NOT_READ.to_owned()),
                state: Err(Present::NOT_READ.to_owned()),
                quarantine: None,
                ..whole
            });
            let decided = |present| {
                let mut facts = facts(present);
                format!("{:?}", decide(&transaction, &mut facts, BOUNDS))
            };
            assert_eq!(decided(head), decided(whole.clone()), "{whole:?}");
        }
    }
    let with_more = Transaction::from(Operation::Delete(id("a").into()));
    let with_more = with_more.require(id("a"), Require::Exists);
    assert_eq!(Need::of(&with_more), Need::Whole);
}

/// An operation had a second path through each store when it was alone.
#[test]
fn an_operation_alone_is_refused_with_its_own_error() {
    let submit = || Operation::Submit(Submit::from(task("a")));
    let send = || {
        let send = SendCommand::new(id("a"), "new".parse().unwrap(), Command::Pause);
        Operation::Send(send)
    };
    let delete = || Operation::Delete(id("a").into());
    let retry = || Operation::Retry(id("a").into());
    let live = || Some(present(TaskStatus::Paused));
    let ended = || Some(present(TaskStatus::Failed));
    let missing = "task 'a' does not exist";
    for (operation, present, text) in [
        (send(), None, missing),
        (delete(), None, missing),
        (retry(), None, missing),
        (submit(), live(), "task 'a' exists already"),
        (submit(), ended(), "task 'a' has ended already; retry it"),
        (send(), ended(), "task 'a' has ended already; retry it"),
        (
            delete(),
            Some(claimed()),
            "task 'a' is claimed by a node, or",
        ),
        (retry(), live(), "state: is paused; retry starts only tasks"),
        (
            retry(),
            Some(Present {
                is_claimed: true,
                ..quarantined()
            }),
            "state: of task 'a' cannot be read (no JSON), and a live node has claimed",
        ),
    ] {
        let mut facts = facts(present);
        let alone = Transaction::from(operation.clone());
        let refused = decide(&alone, &mut facts, BOUNDS).unwrap_err();
        assert!(!matches!(refused, Error::Refused(_)), "{refused:?}");
        let is = refused.to_string();
        assert!(is.starts_with(text), "{operation:?}: {is}");
        let among_others = Transaction::new().with(operation.clone());
        let refused = decide(&among_others, &mut facts, BOUNDS).unwrap_err();
        assert!(matches!(refused, Error::Refused(_)), "{refused:?}");
    }
}

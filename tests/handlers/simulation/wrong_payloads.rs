//! The examples that take signals refuse a payload of another type: it costs no attempt, and starts nothing.

use std::time::Duration;

use windlass::{
    Command, NewTask, Outcome, StateKind, StatefulHandler, TaskId, testing::Simulation,
};

#[expect(dead_code, reason = "the program of the example")]
#[path = "../../../examples/agent.rs"]
mod agent;
#[expect(dead_code, reason = "the program of the example")]
#[path = "../../../examples/poller_interval.rs"]
mod poller;

/// Starts a task, and runs it until it waits.
async fn started(handler: impl StatefulHandler, props: &str) -> (Simulation, TaskId) {
    let simulation = Simulation::builder().handler("k", handler).start();
    let mut simulation = simulation.await.unwrap();
    let task = NewTask::new("k").props(props);
    let id = simulation.client().submit(task).await.unwrap().into_id();
    simulation.advance(Duration::ZERO).await.unwrap();
    (simulation, id)
}

/// Sends a signal, and returns the reply.
async fn reply(
    simulation: &mut Simulation,
    id: &TaskId,
    name: &str,
    payload: &serde_json::Value,
) -> serde_json::Value {
    let signal = Command::signal(name, payload).unwrap();
    match simulation.command(id, signal).await.unwrap() {
        Outcome::Answered { reply } => reply.get("reply").unwrap(),
        other => panic!("{payload}: {other:?}"),
    }
}

/// Sends payloads of other types. Each is refused, and the task goes on as before.
async fn refuses(simulation: &mut Simulation, id: &TaskId, name: &str) {
    let before = simulation.client().get(id).await.unwrap().state.unwrap();
    for payload in [
        serde_json::json!("yes"),
        serde_json::json!({"approved": false}),
        serde_json::json!(-1),
        serde_json::json!(null),
    ] {
        let reply = reply(simulation, id, name, &payload).await;
        let reply = reply.as_str().unwrap();
        assert!(reply.starts_with("refused: "), "{payload}: {reply}");
        simulation.advance(Duration::ZERO).await.unwrap();
        let state = simulation.client().get(id).await.unwrap().state.unwrap();
        assert_eq!(state.code(), before.code(), "{payload}");
        assert_eq!(state.data, before.data, "{payload}");
        assert_eq!((state.attempts, state.errors.total()), (0, 0), "{payload}");
    }
}

/// A wrong payload was an error of each attempt, so it failed the task for good.
#[tokio::test]
async fn the_agent_asks_again_after_a_wrong_payload() {
    for (approved, end) in [(true, StateKind::Completed), (false, StateKind::Failed)] {
        let (mut simulation, id) = started(agent::agent, "a flight").await;
        refuses(&mut simulation, &id, "approve").await;
        let thanks = reply(&mut simulation, &id, "approve", &approved.into()).await;
        assert_eq!(thanks, "thanks");
        let done = simulation.run(&id).await.unwrap();
        assert_eq!(done.code(), end);
        match approved {
            true => assert_eq!(done.result::<String>().unwrap(), "done: booked OS-117"),
            false => assert_eq!(done.error(), Some("book was refused")),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_poller_keeps_its_interval_after_a_wrong_payload() {
    let (mut simulation, id) = started(poller::poll, "").await;
    refuses(&mut simulation, &id, "interval").await;
    let before = reply(&mut simulation, &id, "interval", &20.into()).await;
    assert_eq!(before, 60_000);
    let done = simulation.run(&id).await.unwrap();
    assert_eq!(done.result::<u64>().unwrap(), 20);
}

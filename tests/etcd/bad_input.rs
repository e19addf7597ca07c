//! Invalid records of other programs: quarantined or rejected, while everything else runs.

use windlass::{
    KindConfig, Message, NewTask, Runner, StateKind, TaskContext,
    store::{ChangeKind, Error},
};

use crate::{
    server::Server,
    support::{code, open, raw, secs, spec, until},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn malformed_records_do_not_stop_a_node() {
    let server = Server::start();
    let (store, client) = open(&server.url("ns")).await;
    let mut raw = raw(&server.endpoint()).await;
    for (key, value) in [
        ("tasks/envelope", "{"),
        ("tasks/props/props", "no json"),
        ("tasks/props", ""),
        ("tasks/state", ""),
        ("state/state", r#"{"state":"dancing"}"#),
        ("tasks/parked", ""),
        ("parked/parked", "?"),
        ("tasks/a/b/c/d", "x"),
        ("tasks/", "x"),
        ("nodes/x", "x"),
    ] {
        let key = format!("/ns/{key}");
        raw.put(key, value, None).await.unwrap();
    }
    let handler = |_: TaskContext| async { Message::complete() };
    let node = Runner::builder(&store).node("n");
    let node = node
        .default_handler(KindConfig::default(), handler)
        .start()
        .await
        .unwrap();
    let good = client.submit(NewTask::new("k")).await.unwrap();
    assert_eq!(
        client.wait(&good).await.unwrap().code(),
        StateKind::Completed
    );
    for name in ["envelope", "props", "state"] {
        let id: windlass::TaskId = name.parse().unwrap();
        let reason = client.get(&id).await.unwrap().state.unwrap_err();
        assert!(reason.to_string().contains("cannot be read"), "{reason}");
    }
    // A task is quarantined once, and can be deleted.
    until("they are quarantined", async || {
        let options = etcd_client::GetOptions::new()
            .with_prefix()
            .with_count_only();
        raw.get("/ns/parked/", Some(options)).await.unwrap().count() >= 3
    })
    .await;
    for name in ["envelope", "props", "state"] {
        client.force_delete(name).await.unwrap();
    }
    node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn malformed_commands_are_rejected_with_an_outcome() {
    let server = Server::start();
    let (store, client) = open(&server.url("ns")).await;
    let mut raw = raw(&server.endpoint()).await;
    let node = Runner::builder(&store).node("n");
    let node = node
        .handler("k", crate::support::obeys)
        .start()
        .await
        .unwrap();
    let id = client
        .submit(NewTask::new("k").id("t"))
        .await
        .unwrap()
        .into_id();
    until("it runs", async || {
        client.get(&id).await.unwrap().node.is_some()
    })
    .await;
    for (key, value) in [
        ("tasks/t/commands", "no json"),
        ("tasks/t/commands/x", r#"{"message":"dance"}"#),
        ("nodes/n/commands/1", "{"),
        ("nodes/n/commands/2", r#"{"command":"dance"}"#),
    ] {
        raw.put(format!("/ns/{key}"), value, None).await.unwrap();
    }
    for (prefix, what) in [
        ("/ns/tasks/t/commands", "commands"),
        ("/ns/nodes/n/commands", "node commands"),
    ] {
        until(what, async || {
            let options = etcd_client::GetOptions::new()
                .with_prefix()
                .with_count_only();
            raw.get(prefix, Some(options)).await.unwrap().count() == 0
        })
        .await;
    }
    let options = etcd_client::GetOptions::new().with_prefix();
    let outcomes = raw.get("/ns/outcomes/t/", Some(options)).await.unwrap();
    assert_eq!(outcomes.kvs().len(), 2);
    assert!(
        outcomes
            .kvs()
            .iter()
            .all(|kv| kv.value_str().unwrap().contains("rejected"))
    );
    assert_eq!(code(&client, &id).await, Some(StateKind::Runnable));
    // They are in the history, and in no list of commands that can be read.
    let history = client.history(&id, 100).await.unwrap();
    let texts = history.iter().filter_map(|change| match &change.what {
        ChangeKind::MalformedCommand { command, text } => {
            assert_eq!(*command, change.seq);
            Some(text.as_str())
        }
        _ => None,
    });
    let mut texts: Vec<&str> = texts.collect();
    texts.sort_unstable();
    assert_eq!(texts, ["no json", r#"{"message":"dance"}"#]);
    assert!(client.commands(&id).await.unwrap().is_empty());
    node.shutdown().await;
}

/// Props that cannot be read are replaced when their task is retried: it starts without any.
#[tokio::test]
async fn a_retry_leaves_props_that_cannot_be_read() {
    let server = Server::start();
    let (store, client) = open(&server.url("ns")).await;
    let id = client
        .submit(NewTask::new("k").id("t"))
        .await
        .unwrap()
        .into_id();
    let mut raw = raw(&server.endpoint()).await;
    raw.put("/ns/tasks/t/props", "no json", None).await.unwrap();
    let lease = store
        .coordinator()
        .join(&spec("n"), secs(60))
        .await
        .unwrap();
    let claim = async || {
        let mut answers = store.coordinator().claim(&lease, vec![id.clone()]).await;
        answers.remove(0)
    };
    let refused = claim().await;
    assert!(matches!(refused, Err(Error::Corrupt { .. })), "{refused:?}");
    assert!(claim().await.unwrap().is_none(), "it is quarantined");
    let refused = client.retry(&id).await.unwrap_err();
    assert!(
        refused.to_string().contains("repair the record"),
        "{refused}"
    );
    let kept = raw.get("/ns/tasks/t/props", None).await.unwrap();
    assert_eq!(kept.kvs()[0].value(), b"no json");
    // Repaired by hand, it continues.
    raw.put("/ns/tasks/t/props", "7", None).await.unwrap();
    client.retry(&id).await.unwrap();
    let claimed = claim().await.unwrap().unwrap();
    assert_eq!(claimed.task.props.as_str(), "7");
}

//! Namespaces side by side, and one inside the keys of another, which Metafora allows.

use std::collections::BTreeMap;

use etcd_client::{Client, GetOptions};
use windlass::{
    Command, Message, NewTask, Runner, TaskContext, TaskId,
    clock::SystemClock,
    store::{
        Coordinator, Doctor, Error, IfExists, Registry, SendCommand, Submit,
        etcd::{EtcdStore, Options},
        examine::{Examination, Verdict},
    },
};

use crate::{
    server::Server,
    support::{connect, force_delete, open, raw, secs, spec, task, until},
};

/// The folders of a namespace.
const FOLDERS: [&str; 10] = [
    "tasks", "state", "parked", "finished", "history", "outcomes", "commands", "nodes", "answers",
    "meta",
];

/// Every key that begins so, with its value and its last revision.
async fn keys(etcd: &mut Client, prefix: &str) -> BTreeMap<String, (Vec<u8>, i64)> {
    let options = GetOptions::new().with_prefix();
    let mut got = etcd.get(prefix, Some(options)).await.unwrap();
    let kvs = got.take_kvs().into_iter();
    kvs.map(|kv| {
        let key = String::from_utf8(kv.key().to_vec()).unwrap();
        (key, (kv.value().to_vec(), kv.mod_revision()))
    })
    .collect()
}

async fn completes(_: TaskContext) -> Message {
    Message::complete()
}

async fn obeys(task: TaskContext) -> Message {
    task.stop_requested().await.message()
}

fn id(text: &str) -> TaskId {
    text.parse().unwrap()
}

/// Fills a namespace with tasks of all sorts, whose ids are awkward, and a node that lives.
async fn fill(server: &Server, namespace: &str) {
    let (store, client) = open(&server.url(namespace)).await;
    let node = Runner::builder(&store).node("n").handler("k", completes);
    let node = node.handler("long", obeys).start().await.unwrap();
    for name in ["1", "2", "commands-1", "tasks", "x"] {
        let done = NewTask::new("k").id(format!("{name}-done"));
        client.submit(done).await.unwrap();
        let waits = NewTask::new("other").id(name).props(&name);
        client.submit(waits).await.unwrap();
        client.command(&id(name), Command::Pause).await.unwrap();
        client.wait(&id(&format!("{name}-done"))).await.unwrap();
    }
    let paused = client.submit(NewTask::new("long").id("p")).await.unwrap();
    let sent = client.command(&paused, Command::Pause).await.unwrap();
    client.wait_outcome(&sent).await.unwrap();
    let running = client.submit(NewTask::new("long").id("r")).await.unwrap();
    until("it runs", async || {
        client.get(&running).await.unwrap().node.is_some()
    })
    .await;
    // Left as it is: its keys are copied.
    std::mem::forget(node);
}

/// Copies the keys of a namespace into another place.
async fn plant(etcd: &mut Client, from: &str, to: &str) {
    for (key, (value, _)) in keys(etcd, &format!("/{from}/")).await {
        let key = key.replacen(&format!("/{from}/"), &format!("/{to}/"), 1);
        etcd.put(key, value, None).await.unwrap();
    }
}

/// Asserts that every planted key is unchanged, and that nothing is left of the other tasks.
async fn assert_untouched(
    etcd: &mut Client,
    planted: &BTreeMap<String, (Vec<u8>, i64)>,
    after: &str,
) {
    let now = keys(etcd, "/a/").await;
    let lost = planted
        .iter()
        .filter(|(key, was)| now.get(*key) != Some(was));
    let lost: Vec<&String> = lost.map(|(key, _)| key).collect();
    assert!(
        lost.is_empty(),
        "{after}: {} are lost: {lost:?}",
        lost.len()
    );
    let left = now.keys().filter(|key| !planted.contains_key(*key));
    let own = |key: &&String| !key.starts_with("/a/meta/") && !key.starts_with("/a/answers/");
    let left: Vec<&String> = left.filter(own).collect();
    assert!(left.is_empty(), "{after}: {left:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_done_to_tasks_leaves_a_namespace_inside_alone() {
    let server = Server::start();
    let mut etcd = raw(&server.endpoint()).await;
    fill(&server, "b").await;
    for folder in FOLDERS {
        plant(&mut etcd, "b", &format!("a/{folder}")).await;
        plant(&mut etcd, "b", &format!("a/{folder}/x")).await;
    }
    let planted = keys(&mut etcd, "/a/").await;
    assert!(planted.len() > 700, "{}", planted.len());

    let store = connect(&server.url("a")).await;
    let names = FOLDERS.iter().copied().chain(["x", "1"]);
    let names: Vec<&str> = names.collect();
    for name in &names {
        store.submit(vec![task(name)]).await.remove(0).unwrap();
        let send = SendCommand::new(
            id(name),
            format!("c-{name}").parse().unwrap(),
            Command::Kill,
        );
        store.send(vec![send]).await.remove(0).unwrap();
        store.delete(vec![id(name)]).await.remove(0).unwrap();
    }
    let (opened, client) = open(&server.url("a")).await;
    for name in &names {
        let node = Runner::builder(&opened).node("tasks");
        let node = node.handler("k", completes).start().await.unwrap();
        client.submit(NewTask::new("k").id(*name)).await.unwrap();
        client.wait(&id(name)).await.unwrap();
        node.shutdown().await;
        let again = Submit {
            if_exists: IfExists::ReplaceFinished,
            ..task(name)
        };
        store.submit(vec![again]).await.remove(0).unwrap();
        let sent = client.command(&id(name), Command::Kill).await.unwrap();
        let node = Runner::builder(&opened).node("x");
        let node = node.handler("k", completes).start().await.unwrap();
        client.wait_outcome(&sent).await.unwrap();
        client.wait(&id(name)).await.unwrap();
        node.shutdown().await;
        let history = client.history(&id(name), 100).await.unwrap();
        assert!(!history.is_empty());
        assert!(history.iter().all(|change| change.task == id(name)));
        client.force_delete(&id(name)).await.unwrap();
    }
    assert_untouched(&mut etcd, &planted, "the tasks came and went").await;

    let mut how = Examination::default();
    how.repair = true;
    let findings = store.examine(&how).await.unwrap();
    assert_untouched(&mut etcd, &planted, "the doctor repaired").await;
    let found = findings.iter().find(|f| f.check == "namespaces").unwrap();
    assert_eq!(found.verdict, Verdict::Error, "{found:?}");
    let expected = format!("{} namespaces", 2 * FOLDERS.len());
    assert!(found.found.starts_with(&expected), "{found:?}");
    assert!(found.found.contains("/a/answers/x ("), "{found:?}");
    assert!(!found.advice.is_empty());
}

#[tokio::test]
async fn a_namespace_inside_the_keys_of_another_is_not_opened() {
    let server = Server::start();
    let mut options = Options::parse(&server.url("a")).unwrap();
    options.namespace = "a/tasks".into();
    let refused = EtcdStore::connect(options, SystemClock::shared()).await;
    let error = refused.unwrap_err();
    assert!(matches!(error, Error::Invalid(_)), "{error:?}");
    assert!(error.to_string().contains("'tasks'"), "{error}");

    // A namespace without a name, which Metafora takes, has its keys in `/tasks` and `/nodes`.
    let store = connect(&server.url("tasks")).await;
    store.submit(vec![task("t")]).await.remove(0).unwrap();
    let mut etcd = raw(&server.endpoint()).await;
    etcd.put("/nodes/m/_metafora", "{}", None).await.unwrap();
    let options = Options::parse(&server.url("tasks")).unwrap();
    let refused = EtcdStore::connect(options, SystemClock::shared()).await;
    let error = refused.unwrap_err();
    assert!(error.to_string().contains("'tasks'"), "{error}");
}

/// `a/b` is not a folder of `a`.
#[tokio::test]
async fn a_namespace_below_the_name_of_another_has_keys_of_its_own() {
    let server = Server::start();
    let (outer, inner) = (
        connect(&server.url("a")).await,
        connect(&server.url("a/b")).await,
    );
    for store in [&outer, &inner] {
        store.submit(vec![task("b"), task("tasks")]).await;
        let lease = store.join(&spec("n"), secs(60)).await.unwrap();
        let claimed = store.claim(&lease, vec![id("b")]).await.remove(0);
        assert!(claimed.unwrap().is_some());
    }
    for name in ["b", "tasks"] {
        force_delete(&outer, &id(name)).await;
        inner.get(&id(name)).await.unwrap();
    }
    let findings = inner.examine(&Examination::default()).await.unwrap();
    let found = findings.iter().find(|f| f.check == "namespaces").unwrap();
    assert_eq!(found.verdict, Verdict::Ok, "{found:?}");
    let findings = outer.examine(&Examination::default()).await.unwrap();
    let found = findings.iter().find(|f| f.check == "namespaces").unwrap();
    assert_eq!(found.verdict, Verdict::Ok, "{found:?}");
}

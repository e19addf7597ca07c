//! Results of the tasks that a run of a worker has waited for.

use serde_json::{Value, json};
use windlass::{
    Client, Command, NewTask, TaskStatus,
    store::{Store, TaskRecord},
    workers::{WaitedRecords, WorkerError, Workers, protocol::READS_WAITED},
};

use super::support::{SECRET, Worker, complete, memory, server, within};

/// Submits tasks that complete with texts of these lengths, and a task of the kind `k` that waits for them.
async fn joined(client: &Client, lengths: &[usize]) {
    let ids: Vec<String> = (0..lengths.len()).map(|n| format!("p{n}")).collect();
    for (id, length) in ids.iter().zip(lengths) {
        client.submit(NewTask::new("part").id(id)).await.unwrap();
        let result = windlass::Json::new("result", &"x".repeat(*length)).unwrap();
        let result = Some(result);
        let command = Command::Complete { result };
        client.command(id.as_str(), command).await.unwrap();
    }
    let node = windlass::Runner::builder(client.store())
        .handler("part", |_: windlass::TaskContext| async {
            std::future::pending::<windlass::Message>().await
        })
        .start()
        .await
        .unwrap();
    for id in &ids {
        client.wait(id.as_str()).await.unwrap();
    }
    node.shutdown().await;
    client
        .submit(NewTask::new("k").id("j").after(&ids))
        .await
        .unwrap();
}

async fn read(
    server: &Workers,
    worker: &Worker,
    more: Value,
) -> Result<WaitedRecords, WorkerError> {
    let held = &worker.runs["j"].held;
    let mut form = json!({"secret": SECRET, "id": "j", "fence": held.fence, "run": held.run});
    let fields = form.as_object_mut().unwrap();
    fields.extend(more.as_object().unwrap().clone());
    let form = serde_json::from_value(form).unwrap();
    let name = worker.name.parse().unwrap();
    within("a read", server.waited(&name, &form)).await
}

fn ids(read: &WaitedRecords) -> Vec<&str> {
    read.tasks
        .iter()
        .map(|(waited, _)| waited.task.as_str())
        .collect()
}

#[tokio::test]
async fn a_worker_reads_what_its_run_has_waited_for_in_pages() {
    let (store, client) = memory().await;
    joined(&client, &[3, 700_000, 700_000, 5, 5]).await;
    client.delete("p3").await.unwrap();
    let (server, mut worker) = (server(&store), Worker::new("w"));
    let registered = worker.register(&server, 1).await;
    assert_eq!(registered.features, [READS_WAITED]);
    let claims = worker.exchange(&server, 3000).await.claims;
    assert_eq!(claims[0].waited.len(), 5);

    let first = read(&server, &worker, json!({})).await.unwrap();
    assert_eq!((ids(&first), first.next), (vec!["p0", "p1", "p2"], Some(3)));
    let rest = read(&server, &worker, json!({"from": 3})).await.unwrap();
    assert_eq!((ids(&rest), rest.next), (vec!["p3", "p4"], None));
    assert!(rest.tasks[0].1.is_none(), "it was deleted");
    let two = read(&server, &worker, json!({"from": 3, "limit": 1})).await;
    assert_eq!(two.unwrap().next, Some(4));
    let none = read(&server, &worker, json!({"from": 5})).await.unwrap();
    assert_eq!((none.tasks.len(), none.next), (0, None));
    for limit in [0, 101] {
        let refused = read(&server, &worker, json!({"limit": limit})).await;
        let Err(WorkerError::Invalid(error)) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!(error.field(), "limit");
    }
}

/// A SQLite file reads the tasks by their ids.
#[tokio::test]
async fn a_worker_reads_results_from_a_sqlite_file() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("w.db").display());
    let store = Store::open(&url).await.unwrap();
    let client = Client::new(&store);
    joined(&client, &[3, 4, 5, 6, 7, 8]).await;
    client.delete("p3").await.unwrap();
    let (server, mut worker) = (server(&store), Worker::new("w"));
    worker.register(&server, 1).await;
    worker.exchange(&server, 3000).await;
    let all = read(&server, &worker, json!({})).await.unwrap();
    assert_eq!(ids(&all), ["p0", "p1", "p2", "p3", "p4", "p5"]);
    let result = |record: &TaskRecord| match &record.state.as_ref().unwrap().status {
        TaskStatus::Completed { result } => result.clone().unwrap().get::<String>("result"),
        other => panic!("{other:?}"),
    };
    let lengths = all.tasks.iter().map(|(_, record)| {
        let result = record.as_ref().map(result);
        result.map(|text| text.unwrap().len())
    });
    let lengths: Vec<Option<usize>> = lengths.collect();
    assert_eq!(lengths, [Some(3), Some(4), Some(5), None, Some(7), Some(8)]);
}

/// Any server answers, for the run that the worker has, and for no other run, worker or secret.
#[tokio::test]
async fn only_the_worker_with_the_run_reads_what_it_has_waited_for() {
    let (store, client) = memory().await;
    joined(&client, &[3]).await;
    let (one, other) = (server(&store), server(&store));
    let (mut worker, mut thief) = (Worker::new("w"), Worker::new("t"));
    worker.register(&one, 1).await;
    worker.exchange(&one, 3000).await;
    thief.register(&one, 1).await;
    thief.runs = worker.runs.clone();
    assert_eq!(
        ids(&read(&other, &worker, json!({})).await.unwrap()),
        ["p0"]
    );

    let is_lost =
        |read: Result<WaitedRecords, WorkerError>| matches!(read, Err(WorkerError::Lost { .. }));
    assert!(is_lost(read(&other, &thief, json!({})).await));
    for wrong in [
        json!({"run": 999}),
        json!({"fence": 999}),
        json!({"id": "p0"}),
        json!({"id": "none"}),
    ] {
        assert!(
            is_lost(read(&other, &worker, wrong.clone()).await),
            "{wrong}"
        );
    }
    let secret = json!({"secret": "another secret of the worker"});
    let refused = read(&other, &worker, secret).await;
    assert!(
        matches!(refused, Err(WorkerError::Secret(_))),
        "{refused:?}"
    );
    thief.name = "nobody".to_owned();
    let over = read(&other, &thief, json!({})).await;
    assert!(matches!(over, Err(WorkerError::Over(_))), "{over:?}");

    let runs = worker.runs.clone();
    worker.report(&one, "j", complete()).await;
    worker.runs = runs;
    assert!(is_lost(read(&other, &worker, json!({})).await));
}

//! The keys that a node of Metafora leaves of a task that it ends.

use windlass::{
    NewTask,
    store::{LogQuery, examine::Examination},
};

use crate::{
    server::Server,
    support::{open, raw},
};

/// Regression: the next task with the id had the log lines of the task that had ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_task_has_no_lines_of_one_that_metafora_has_ended() {
    let server = Server::start();
    let shared = format!("{}?metafora-nodes=true", server.url("ns"));
    let (store, client) = open(&shared).await;
    let mut etcd = raw(&server.endpoint()).await;
    let part = r#"{"part":0,"incarnation":0,"attempt":1,"start":0,"fence":7,"seen":1,
        "lines":[{"n":1,"at":"2030-01-01T00:00:00Z","text":"earlier"}]}"#;
    let key = |id: &str| format!("/ns/meta/log/{id}/000000000000.0.1");
    for id in ["a", "b"] {
        etcd.put(key(id), part, None).await.unwrap();
    }
    client.submit(NewTask::new("k").id("a")).await.unwrap();
    let page = client.log_lines("a", &LogQuery::default()).await.unwrap();
    assert_eq!(page.lines, []);
    let mut repair = Examination::default();
    repair.repair = true;
    let findings = store.doctor().unwrap().examine(&repair).await.unwrap();
    let parts = findings.iter().find(|finding| finding.check == "parts");
    assert_eq!(parts.unwrap().repaired, 1, "{parts:?}");
    let left = etcd.get(key("b"), None).await.unwrap();
    assert_eq!(left.count(), 0);
}

//! What the pages say about the store: which it is, and that it takes no writes.

use std::{sync::Arc, time::Duration};

use windlass::{
    NewTask,
    clock::SystemClock,
    store::{
        Coordinator as _, NodeSpec, Store,
        sqlite::{Options, SqliteStore},
    },
};
use windlass_server::{Role, Server};

use crate::kit::Kit;

#[tokio::test]
async fn a_page_names_the_store_of_its_commands_to_who_may_see_everything() {
    let store = Store::open("memory:").await.unwrap();
    let server = Server::builder(&store)
        .store_url("sqlite:/data/it's.db")
        .build();
    let kit = Kit::of(store, server).await;
    let line = r"export WINDLASS_STORE='sqlite:/data/it'\''s.db'";
    let page = kit.page("/tasks").await;
    assert!(page.contains(line), "{page}");
    let scoped = kit.token("scoped", Role::Operate, &["mail"]).await;
    let page = kit.page_as(&scoped, "/tasks").await;
    assert!(!page.contains("WINDLASS_STORE"), "{page}");
}

#[tokio::test]
async fn a_page_says_that_the_store_takes_no_writes_until_it_does() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = Options::default();
    options.max_file_bytes = Some(1 << 20);
    let file = folder.path().join("w.db");
    let clock = SystemClock::shared();
    let sqlite = SqliteStore::open(&file, options, clock.clone())
        .await
        .unwrap();
    let sqlite = Arc::new(sqlite);
    let kit = Kit::with(Store::from_parts(sqlite.clone(), sqlite.clone(), clock)).await;
    let scoped = kit.token("scoped", Role::Operate, &["mail"]).await;
    let spec = NodeSpec::new("n".parse().unwrap());
    let join = || sqlite.join(&spec, Duration::from_secs(600));
    join().await.unwrap();
    let says = "The store takes no writes";
    assert!(!kit.page("/").await.contains(says));
    let large = || NewTask::new("mail").props(&"x".repeat(1 << 17));
    let mut sent = Vec::new();
    let error = loop {
        match kit.client.submit(large()).await {
            Ok(done) => sent.push(done.id().clone()),
            Err(error) => break error,
        }
        assert!(sent.len() < 20, "the file does not grow");
    };
    assert!(error.is_retryable(), "{error}");
    for page in ["/", "/tasks", "/nodes"] {
        let page = kit.page(page).await;
        assert!(
            page.contains(says) && page.contains("largest size"),
            "{page}"
        );
        assert!(page.contains("role=\"alert\""), "{page}");
    }
    let page = kit.page_as(&scoped, "/tasks").await;
    assert!(page.contains(says) && !page.contains("w.db"), "{page}");
    // Nor do the answers to what it sends.
    let task = format!(r#"{{"kind":"mail","props":"{}"}}"#, "x".repeat(1 << 17));
    for (body, status) in [(task.clone(), 503), (format!("[{task}]"), 200)] {
        let of_admin = kit.call("POST /v1/tasks", body.clone()).await;
        assert!(of_admin.text.contains("w.db"), "{}", of_admin.text);
        let answer = kit.call_as(&scoped, "POST /v1/tasks", body.clone()).await;
        assert_eq!(answer.status, status, "{}", answer.text);
        assert!(
            answer.text.contains("unavailable") && !answer.text.contains("w.db"),
            "{}",
            answer.text
        );
    }
    // Regression: a transaction that has nothing to write counted as a write.
    let taken = join().await.unwrap_err();
    assert!(taken.to_string().contains("node"), "{taken}");
    assert!(kit.page("/").await.contains(says));
    kit.client.force_delete(&sent[0]).await.unwrap();
    assert!(!kit.page("/").await.contains(says));
}

//! Backups by a request.

use std::path::Path;

use windlass::{
    Client, NewTask,
    store::{Error, Store},
};
use windlass_server::{
    Role, Server, Tokens,
    axum::{
        body::to_bytes,
        http::{StatusCode, header},
    },
};

use crate::kit::{Kit, request};

async fn open(path: &Path) -> Store {
    let url = format!("sqlite:{}", path.display());
    Store::open(&url).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_is_the_store_and_one_is_made_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let kit = Kit::with(open(&folder.path().join("tasks.db")).await).await;
    for n in 0..50 {
        let task = NewTask::new("mail").id(format!("t{n}"));
        kit.client.submit(task).await.unwrap();
    }
    // A file of somebody else.
    let other = folder.path().join("tasks.db.download");
    std::fs::write(&other, "mine").unwrap();
    let unread = kit.open(request(&kit.admin, "GET /v1/backup", "")).await;
    assert_eq!(unread.status(), StatusCode::OK);
    let headers = unread.headers().clone();
    assert_eq!(headers[header::CONTENT_TYPE], "application/vnd.sqlite3");
    // The file that is sent has no name any more, and the next backup waits for its end.
    let names = std::fs::read_dir(folder.path()).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let strange: Vec<_> = names
        .filter(|name| name != "tasks.db.download")
        .filter(|name| name.contains("download") || name.contains("part"))
        .collect();
    assert!(strange.is_empty(), "{strange:?}");
    assert_eq!(std::fs::read_to_string(&other).unwrap(), "mine");
    let second = kit.get("/v1/backup").await;
    assert_eq!(second.problem(503), "busy");
    assert!(second.headers.contains_key(header::RETRY_AFTER));
    let bytes = to_bytes(unread.into_body(), 1 << 30).await.unwrap();
    assert_eq!(headers[header::CONTENT_LENGTH], bytes.len().to_string());

    let copy = folder.path().join("copy.db");
    std::fs::write(&copy, &bytes).unwrap();
    let store = open(&copy).await;
    let restored = Kit {
        client: Client::new(&store),
        server: Server::builder(&store).build(),
        tokens: Tokens::new(&store),
        admin: kit.admin.clone(),
        store,
    };
    assert_eq!(
        restored.client.get("t49").await.unwrap().task.kind.as_str(),
        "mail"
    );
    let refused = restored.client.submit(NewTask::new("mail")).await;
    assert!(matches!(refused, Err(Error::Copied(_))), "{refused:?}");
    // The tokens are in it.
    let read = restored.call_as(&kit.admin, "GET /v1/tasks/t0", "").await;
    assert_eq!(read.status, StatusCode::OK);
    let refused = restored.call("POST /v1/tasks", r#"{"kind":"mail"}"#).await;
    assert_eq!(refused.problem(409), "copied");
    let next = kit.open(request(&kit.admin, "GET /v1/backup", "")).await;
    assert_eq!(next.status(), StatusCode::OK);
}

#[tokio::test]
async fn only_an_admin_gets_a_backup_and_only_of_a_store_that_has_one() {
    let folder = tempfile::tempdir().unwrap();
    let file = Kit::with(open(&folder.path().join("tasks.db")).await).await;
    for (name, role) in [("reads", Role::Read), ("operates", Role::Operate)] {
        let token = file.token(name, role, &[]).await;
        let refused = file.call_as(&token, "GET /v1/backup", "").await;
        assert_eq!(refused.problem(403), "forbidden");
    }
    let wrong = file.get("/v1/backup?to=/etc/passwd").await;
    assert_eq!(wrong.field(), "to");
    let head = file.call("HEAD /v1/backup", "").await;
    assert_eq!(head.status, StatusCode::METHOD_NOT_ALLOWED);
    let memory = Kit::new().await;
    assert_eq!(memory.get("/v1/backup").await.problem(501), "unsupported");
}

/// Its token is compared before each piece.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_ends_when_its_token_is_revoked() {
    let folder = tempfile::tempdir().unwrap();
    let kit = Kit::with(open(&folder.path().join("tasks.db")).await).await;
    let token = kit.token("leaves", Role::Admin, &[]).await;
    let unread = kit.open(request(&token, "GET /v1/backup", "")).await;
    assert_eq!(unread.status(), StatusCode::OK);
    let gone = kit.call("DELETE /v1/tokens/leaves", "").await;
    assert_eq!(gone.status, StatusCode::NO_CONTENT);
    let read = to_bytes(unread.into_body(), 1 << 30).await;
    assert!(read.is_err(), "{:?}", read.map(|bytes| bytes.len()));
}

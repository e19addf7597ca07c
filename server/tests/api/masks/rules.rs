//! Values that are masked cannot be guessed, written back or quoted, and masks are rows of the namespace.

use serde_json::{Value, json};
use windlass::{
    Json, NewTask,
    store::{Expected, SetValue, Store},
};
use windlass_server::{Mask, Role, Server};

use super::{PLACEHOLDER, SECRET, mask, new, set, until_known};
use crate::kit::{BOUND, Kit, request};

/// A filter says which tasks have a value, a guard says whether the data is a guess, and another kind has another mask.
#[tokio::test]
async fn a_masked_value_cannot_be_guessed() {
    let kit = Kit::new().await;
    kit.client.submit(new("a").paused()).await.unwrap();
    set(&kit, &mask()).await;
    for (query, field) in [
        ("props_at=/password=S3CRET", "props_at"),
        ("props_at=/list=1", "props_at"),
        ("props_at=/list/0=1", "props_at"),
        ("props_at==1", "props_at"),
        ("error=S3CRET", "error"),
        ("kind=safe&error=x", "error"),
        ("kind=sa*&fingerprint=x", "fingerprint"),
        ("kind=schedule&props_at=/run/props/password=1", "props_at"),
    ] {
        let refused = kit.get(&format!("/v1/tasks?{query}")).await;
        assert_eq!(refused.problem(403), "masked", "{query}");
        assert_eq!(refused.json()["field"], field, "{query}");
    }
    for query in [
        "props_at=/user=ann",
        "kind=mail&props_at=/password=1",
        "kind=mail&error=x",
    ] {
        let listed = kit.get(&format!("/v1/tasks?{query}")).await;
        assert_eq!(listed.status, 200, "{query}: {}", listed.text);
    }
    let guess = r#"{"lines":[{"op":"require","task":"a","data":{"key":"S3CRET","ok":1}}]}"#;
    for dry_run in ["{", r#"{"dry_run":true,"#] {
        let refused = kit
            .call("POST /v1/transactions", guess.replacen('{', dry_run, 1))
            .await;
        assert_eq!(refused.problem(403), "masked");
        assert_eq!(refused.json()["field"], "data");
    }
    let kind = r#"{"kind":"open"}"#;
    let line = r#"{"lines":[{"op":"reschedule","task":"a","kind":"open"}]}"#;
    for (path, body) in [("tasks/a/reschedule", kind), ("transactions", line)] {
        let refused = kit.call(&format!("POST /v1/{path}"), body).await;
        assert_eq!(refused.problem(403), "masked", "{path}");
        assert_eq!(refused.json()["field"], "kind");
    }
    // A kind that hides as much is allowed.
    let all = Mask::new("closed", ["/*"]).unwrap().errors(true).log(true);
    set(&kit, &all).await;
    let moved = kit
        .call("POST /v1/tasks/a/reschedule", r#"{"kind":"closed"}"#)
        .await;
    assert_eq!(moved.status, 200, "{}", moved.text);
}

#[tokio::test]
async fn a_placeholder_is_never_written_back() {
    let kit = Kit::new().await;
    kit.client.submit(new("a").paused()).await.unwrap();
    set(&kit, &mask()).await;
    let shown = kit.get("/v1/tasks/a").await.json()["props"].clone();
    let props = json!({ "props": shown }).to_string();
    let data = json!({ "data": [serde_json::from_str::<Value>(PLACEHOLDER).unwrap()] }).to_string();
    let submit = json!({"id": "b", "kind": "other", "props": shown}).to_string();
    let op = |op: &str, body: &str| {
        let line = body.replacen('{', &format!(r#"{{"op":"{op}","task":"a","#), 1);
        format!(r#"{{"lines":[{line}]}}"#)
    };
    for (path, body, field) in [
        ("tasks/a/reschedule", props.clone(), "props"),
        ("tasks/a/reschedule", data.clone(), "data"),
        ("tasks/a/retry", props.clone(), "props"),
        ("tasks/a/retry", data.clone(), "data"),
        ("tasks", submit.clone(), "props"),
        ("tasks/a/signals/say", PLACEHOLDER.to_owned(), "payload"),
        (
            "tasks/a/commands",
            format!(r#"{{"command":"complete","result":{PLACEHOLDER}}}"#),
            "result",
        ),
        ("transactions", op("reschedule", &props), "props"),
        ("transactions", op("retry", &data), "data"),
    ] {
        let refused = kit.call(&format!("POST /v1/{path}"), body).await;
        assert_eq!(refused.field(), field, "{path}: {}", refused.text);
    }
    let array = kit
        .call("POST /v1/tasks", format!("[{submit}]"))
        .await
        .json();
    assert_eq!(
        (&array[0]["code"], &array[0]["field"]),
        (&json!("invalid"), &json!("props"))
    );
    let says = array[0]["detail"].as_str().unwrap();
    assert!(
        says.contains("/list/0") || says.contains("/password"),
        "{says}"
    );
    assert!(kit.client.get("b").await.is_err());
    let record = kit.client.get("a").await.unwrap();
    assert!(
        record.task.props.as_str().contains(SECRET),
        "{}",
        record.task.props
    );
}

/// The check of props quotes what is wrong in them.
#[tokio::test]
async fn an_error_does_not_quote_a_masked_value() {
    let store = Store::open("memory:").await.unwrap();
    let check = |kind: &windlass::Kind, props: &Json| match kind.as_str() {
        "open" => Ok(()),
        _ => Err(windlass::Invalid::new("props", format!("{props} is wrong"))),
    };
    let server = Server::builder(&store).check(check).build();
    let kit = Kit::of(store, server).await;
    let task = NewTask::new("closed")
        .id("a")
        .props(&json!({"password": SECRET}));
    kit.client.submit(task.paused()).await.unwrap();
    let retry = r#"{"props":{"password":"S3CRET"}}"#;
    let submit = r#"{"kind":"closed","props":"S3CRET"}"#;
    let kind = r#"{"kind":"strict"}"#;
    let tried = [
        ("tasks/a/reschedule", kind),
        ("tasks/a/reschedule", retry),
        ("tasks", submit),
    ];
    for (path, body) in tried {
        let open = kit.call(&format!("POST /v1/{path}"), body).await;
        assert!(
            open.text.contains(SECRET),
            "quoted without a mask: {}",
            open.text
        );
    }
    set(&kit, &Mask::new("closed", ["/props/password"]).unwrap()).await;
    set(&kit, &Mask::new("strict", ["/props/password"]).unwrap()).await;
    for (path, body) in tried {
        let refused = kit.call(&format!("POST /v1/{path}"), body).await;
        assert_eq!(refused.field(), "props", "{}", refused.text);
        assert!(!refused.text.contains(SECRET), "{}", refused.text);
    }
}

/// A row that another program has written, or a later version.
#[tokio::test]
async fn a_mask_that_cannot_be_read_hides_everything() {
    let kit = Kit::new().await;
    kit.client
        .submit(NewTask::new("k").id("a").props(&json!({"n": SECRET})))
        .await
        .unwrap();
    let row = SetValue::new("server/mask/strange", "{").expect(Expected::Absent);
    assert!(kit.store.registry().set_value(&row).await.unwrap());
    until_known(&kit, |masks| {
        masks[0]["kind"] == "strange" && masks[0]["unreadable"].is_string()
    })
    .await;
    let hidden = kit.get("/v1/tasks/a").await;
    assert!(
        !hidden.text.contains(SECRET) && hidden.text.contains("masked"),
        "{}",
        hidden.text
    );
    assert_eq!(kit.get("/v1/tasks?error=x").await.problem(403), "masked");
    assert_eq!(kit.call("DELETE /v1/masks/strange", "").await.status, 204);
    assert!(kit.get("/v1/tasks/a").await.text.contains(SECRET));
}

#[tokio::test]
async fn masks_are_of_the_namespace_and_for_admins() {
    let kit = Kit::new().await;
    let other = Kit::of_server(&kit, Server::builder(&kit.store).build());
    kit.client.submit(new("a").paused()).await.unwrap();
    assert!(other.get("/v1/tasks/a").await.text.contains(SECRET));
    let body = r#"{"kind":"safe","pointers":["/props/*"]}"#;
    let operator = kit.token("op", Role::Operate, &[]).await;
    for line in ["GET /v1/masks", "POST /v1/masks", "DELETE /v1/masks/safe"] {
        assert_eq!(
            kit.call_as(&operator, line, body).await.problem(403),
            "forbidden",
            "{line}"
        );
    }
    assert_eq!(kit.call("POST /v1/masks", body).await.status, 204);
    assert!(
        !kit.get("/v1/tasks/a").await.text.contains(SECRET),
        "at once, here"
    );
    let hidden = async {
        while other.get("/v1/tasks/a").await.text.contains(SECRET) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(BOUND, hidden)
        .await
        .expect("another server applies it");
    for (body, field) in [
        (r#"{"kind":"safe"}"#, "pointers"),
        (r#"{"kind":"safe","pointers":["env"]}"#, "pointers"),
        (r#"{"kind":"a*b","log":true}"#, "kind"),
        (r#"{"kind":"safe","log":1}"#, "body"),
    ] {
        assert_eq!(
            kit.call("POST /v1/masks", body).await.field(),
            field,
            "{body}"
        );
    }
}

/// A backup has every value.
#[tokio::test]
async fn no_backup_is_sent_while_values_are_masked() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("s.db").display());
    let kit = Kit::with(Store::open(&url).await.unwrap()).await;
    kit.client.submit(new("a").paused()).await.unwrap();
    let backup = async || {
        let response = kit.open(request(&kit.admin, "GET /v1/backup", "")).await;
        let status = response.status();
        drop(response);
        status
    };
    assert_eq!(backup().await, 200);
    set(&kit, &mask()).await;
    let refused = kit.get("/v1/backup").await;
    assert_eq!(refused.problem(403), "masked");
    assert_eq!(refused.json()["field"], "backup");
}

/// A patch could compare a masked value, copy it to another place, or move an element out of a masked one.
#[tokio::test]
async fn a_patch_does_not_reach_a_masked_value() {
    let kit = Kit::new().await;
    kit.client.submit(new("a").paused()).await.unwrap();
    set(&kit, &mask()).await;
    let patch = async |body: &str| {
        let mut request = request(&kit.admin, "PATCH /v1/tasks/a", body.to_owned());
        let kind = "application/json-patch+json".parse().unwrap();
        request.headers_mut().insert("content-type", kind);
        kit.send(request).await
    };
    for refused in [
        r#"[{"op":"test","path":"/props/password","value":"S3CRET"}]"#,
        r#"[{"op":"test","path":"/props","value":{}}]"#,
        r#"[{"op":"test","path":"","value":{}}]"#,
        r#"[{"op":"copy","from":"/props/password","path":"/props/user"}]"#,
        r#"[{"op":"move","from":"/props/list","path":"/props/user"}]"#,
        r#"[{"op":"remove","path":"/props/list/0"}]"#,
        r#"[{"op":"copy","from":"/data/key","path":"/props/user"}]"#,
    ] {
        let answer = patch(refused).await;
        assert_eq!(answer.problem(403), "masked", "{refused}");
        assert_eq!(answer.json()["field"], "path", "{refused}");
    }
    let user = r#"[{"op":"test","path":"/props/user","value":"ann"},{"op":"replace","path":"/props/user","value":"bob"}]"#;
    let patched = patch(user).await;
    assert_eq!(patched.status, 200, "{}", patched.text);
    let props = kit.client.get("a").await.unwrap().task.props;
    assert!(
        props.as_str().contains(SECRET) && props.as_str().contains("bob"),
        "{props}"
    );
}

/// The spec of a schedule has the props of its runs.
#[tokio::test]
async fn a_schedule_is_not_written_with_placeholders() {
    let kit = Kit::new().await;
    let run = json!({"kind": "safe", "props": {"password": SECRET}});
    let spec = json!({"run": run, "cron": ["0 0 1 1 *"]});
    let body = json!({"id": "s", "spec": spec, "paused": true}).to_string();
    let made = kit.call("POST /v1/schedules", body).await;
    assert_eq!(made.status, 201, "{}", made.text);
    set(&kit, &mask()).await;
    let shown = kit.get("/v1/schedules/s").await.json();
    let hidden: Value = serde_json::from_str(PLACEHOLDER).unwrap();
    assert_eq!(
        shown["spec"]["run"]["props"],
        json!({"password": hidden}),
        "{shown}"
    );
    let change = json!({"run": shown["spec"]["run"]}).to_string();
    let refused = kit.call("PATCH /v1/schedules/s", change).await;
    assert_eq!(refused.field(), "spec", "{}", refused.text);
    let again = json!({"id": "t", "spec": shown["spec"]}).to_string();
    assert_eq!(kit.call("POST /v1/schedules", again).await.field(), "spec");
    let changed = kit
        .call("PATCH /v1/schedules/s", r#"{"description":"x"}"#)
        .await;
    assert_eq!(changed.status, 200, "{}", changed.text);
    let kept = kit.client.get("s").await.unwrap();
    let kept = format!("{:?} {:?}", kept.task.props, kept.state);
    assert!(kept.contains(SECRET), "{kept}");
}

/// Regression: a note that quotes a masked value was shown to everybody who may read the task.
#[tokio::test]
async fn a_note_is_hidden_with_the_texts_of_errors() {
    let kit = Kit::new().await;
    kit.client.submit(new("a")).await.unwrap();
    let noted = r#"{"command":"pause","note":"refund of card S3CRET"}"#;
    let sent = kit.call("POST /v1/tasks/a/commands", noted).await;
    assert_eq!(sent.status, 202, "{}", sent.text);
    let paths = ["/v1/tasks/a/commands", "/v1/tasks/a/history", "/tasks/a"];
    assert!(kit.get(paths[0]).await.text.contains("S3CRET"));
    set(&kit, &mask()).await;
    for path in paths {
        let text = kit.get(path).await.text;
        assert!(!text.contains("S3CRET"), "{path}: {text}");
        assert!(text.contains("[masked]"), "{path}: {text}");
    }
}

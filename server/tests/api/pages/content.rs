//! Hostile, large and missing content.

use serde_json::json;
use windlass::{KindConfig, Message, NewTask, Runner, TaskContext};
use windlass_server::axum::http::StatusCode;

use crate::kit::{BOUND, Kit};

const SCRIPT: &str = "<script>alert(1)</script>";
/// A text that turns the direction of what follows.
const BIDI: &str = "\u{202e}gpj.exe";

#[tokio::test]
async fn the_page_of_a_task_shows_how_its_data_has_changed() {
    let kit = Kit::new().await;
    kit.client
        .submit(NewTask::new("sync").id("a"))
        .await
        .unwrap();
    let runner = Runner::builder(&kit.store)
        .handler_with(
            "sync",
            KindConfig::default().data_version(3),
            async |task: TaskContext| {
                let large = "x".repeat(300);
                for data in [
                    json!({"cursor": 1, "in": {"seen": SCRIPT}}),
                    json!({"cursor": 2, "in": {"seen": "b"}}),
                    json!({"cursor": 2, "large": large}),
                ] {
                    task.checkpoint(&data).await.unwrap();
                }
                Message::complete()
            },
        )
        .start()
        .await
        .unwrap();
    kit.client.wait("a").await.unwrap();
    let nodes = kit.page("/nodes").await;
    assert!(nodes.contains("up to data version 3"), "{nodes}");
    runner.shutdown().await;
    let page = kit.page("/tasks/a").await;
    let section = page.split("How it has changed").nth(1).unwrap();
    let section = section.split("</table>").next().unwrap();
    let rows: Vec<&str> = section.split("<tr data-key").skip(1).collect();
    assert_eq!(rows.len(), 3, "{section}");
    // The newest first: `large` is new, and `in` is gone.
    assert!(
        rows[0].contains("<b>in</b>") && rows[0].contains("none"),
        "{}",
        rows[0]
    );
    assert!(!rows[0].contains("cursor"), "{}", rows[0]);
    let cursor = "<b>cursor</b></bdi> <code><bdi>1</bdi></code> → <code><bdi>2</bdi></code>";
    assert!(rows[1].contains(cursor), "{}", rows[1]);
    assert!(
        rows[1].contains("<b>in.seen</b>") && rows[1].contains("&lt;script&gt;"),
        "{}",
        rows[1]
    );
    assert!(rows[2].contains("none"), "{}", rows[2]);
}

#[tokio::test]
async fn hostile_texts_stay_texts_and_large_ones_are_cut() {
    let kit = Kit::new().await;
    let large = "x".repeat(100_000);
    let id = "a\"><img src=x onerror=alert(1)>&'";
    let task = NewTask::new("kind<b>")
        .id(id)
        .label("team", SCRIPT)
        .props(&json!({"html": SCRIPT, "bidi": BIDI, "large": large}));
    kit.client.submit(task).await.unwrap();
    let error = format!("{SCRIPT}\u{1b}[31m{BIDI}{large}");
    let runner = Runner::builder(&kit.store)
        .node("n<i>")
        .handler("kind<b>", move |task: TaskContext| {
            let error = error.clone();
            async move {
                task.log(format!("{SCRIPT}\u{1b}[2J{}", "y".repeat(5000)));
                Message::fail(error)
            }
        })
        .start()
        .await
        .unwrap();
    let end = tokio::time::Instant::now() + BOUND;
    while !kit.page("/tasks").await.contains(">failed</span>") {
        assert!(tokio::time::Instant::now() < end);
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let path = format!(
        "/tasks/{}",
        id.bytes().map(|b| format!("%{b:02X}")).collect::<String>()
    );
    for path in [
        &path,
        "/",
        "/tasks",
        "/failures",
        "/nodes",
        "/search?q=kind%3Cb%3E",
        "/search?q=%3Cscript%3E",
    ] {
        let page = kit.page(path).await;
        for raw in [
            "<script>",
            "<img",
            "<b>",
            "<i>",
            "\u{1b}",
            "x".repeat(5000).as_str(),
            "y".repeat(1000).as_str(),
        ] {
            assert!(
                !page.contains(raw),
                "{} in {path}",
                raw.escape_debug().take(20).collect::<String>()
            );
        }
    }
    let page = kit.page(&path).await;
    for (before, _) in page.match_indices(BIDI) {
        let opened = page[..before].rfind("<bdi").unwrap();
        assert!(
            !page[opened..before].contains("</bdi>"),
            "a text with a direction is isolated"
        );
    }
    assert!(
        page.contains("The whole value") && page.contains("The whole error"),
        "what is cut has a link"
    );
    runner.shutdown().await;
}

#[tokio::test]
async fn an_empty_store_says_what_to_do() {
    let kit = Kit::new().await;
    for path in ["/", "/tasks"] {
        let page = kit.page(path).await;
        for command in [
            "windlass submit --id hello -- echo hello",
            "windlass worker --until-idle",
            "windlass get hello --history",
        ] {
            assert!(page.contains(command), "{command} in {path}");
        }
    }
    assert!(
        !kit.page("/tasks?state=failed")
            .await
            .contains("windlass submit")
    );
}

#[tokio::test]
async fn the_url_of_the_list_is_the_query_of_the_api() {
    let kit = Kit::new().await;
    for n in 0..120 {
        let task = NewTask::new("mail")
            .id(format!("m{n:03}"))
            .label("team", "a");
        kit.client.submit(task).await.unwrap();
    }
    kit.submit("other", "report").await;
    let page = kit
        .page("/tasks?kind=mail&label=team%3Da&state=&limit=50")
        .await;
    assert_eq!(page.matches("<tr data-key").count(), 50);
    assert!(
        page.contains("<bdi>windlass list --kind mail --label team=a --limit 50</bdi>"),
        "{page}"
    );
    let next = page
        .split('"')
        .find(|part| part.starts_with("/tasks?") && part.contains("cursor="))
        .unwrap();
    let second = kit.page(&next.replace("&amp;", "&")).await;
    assert!(
        second.contains("m020") && !second.contains("m119") && second.contains("First page"),
        "{second}"
    );
    let wrong = kit.call("GET /tasks?colour=red", "").await;
    assert_eq!(wrong.status, StatusCode::BAD_REQUEST);
    assert!(super::checked(&wrong).contains("colour"));
}

#[tokio::test]
async fn the_search_finds_ids_beginnings_kinds_and_labels() {
    let kit = Kit::new().await;
    let task = NewTask::new("mail/send")
        .id("order-7")
        .label("team", "billing");
    kit.client.submit(task).await.unwrap();
    let found = kit.call("GET /search?q=order-7", "").await;
    assert_eq!(found.status, StatusCode::SEE_OTHER);
    assert_eq!(found.headers["location"], "/tasks/order-7");
    for text in ["order", "mail%2Fsend", "mail", "team%3Dbilling", "team"] {
        let page = kit.page(&format!("/search?q={text}")).await;
        assert!(page.contains("/tasks/order-7\""), "{text}: {page}");
    }
    // Its command line is for all of its parts.
    let page = kit.page("/search?q=mail%2Fsend").await;
    let line = "windlass list --kind mail/send; windlass list --kind &#39;mail/send*&#39;";
    assert!(
        page.contains(line) || page.contains(&line.replace("&#39;", "'")),
        "{page}"
    );
    assert!(
        kit.page("/search?q=nothing")
            .await
            .contains("No task has this id")
    );
    assert_eq!(
        kit.call("GET /search?q=", "").await.headers["location"],
        "/tasks"
    );
}

#[tokio::test]
async fn what_waits_is_on_the_overview_and_every_number_is_a_link() {
    let kit = Kit::new().await;
    kit.submit("a", "mail").await;
    kit.submit("b", "mail").await;
    let page = kit.page("/").await;
    let link = "/tasks?kind=mail&amp;waits=no_node\">2</a>";
    assert!(
        page.contains(link) && page.contains("no live node handles its kind"),
        "{page}"
    );
    assert!(
        page.contains("/tasks?kind=mail&amp;state=queued\">2</a>"),
        "{page}"
    );
    let listed = kit.page("/tasks?kind=mail&waits=no_node").await;
    assert_eq!(listed.matches("<tr data-key").count(), 2);
}

#[tokio::test]
async fn a_task_shows_what_it_waits_for_and_what_waits_for_it() {
    let kit = Kit::new().await;
    kit.submit("first", "mail").await;
    kit.client
        .submit(NewTask::new("mail").id("second").after(["first"]))
        .await
        .unwrap();
    let page = kit.page("/tasks/second").await;
    assert!(
        page.contains("It waits for</h3>") && page.contains("/tasks/first\""),
        "{page}"
    );
    assert!(page.contains("windlass graph second"), "{page}");
    let page = kit.page("/tasks/first?tree=1").await;
    assert!(
        page.contains("These wait for it</h3>") && page.contains("/tasks/second\""),
        "{page}"
    );
}

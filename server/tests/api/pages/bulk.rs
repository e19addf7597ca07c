//! Bulk operations on pages: the count, the start, and the task that does it; and what the tasks do now.

use windlass::{Message, NewTask, Runner, TaskContext};
use windlass_server::{Role, bulk};

use crate::kit::Kit;

/// Returns the value of a hidden field of the form that starts the operation.
fn hidden<'a>(page: &'a str, name: &str) -> &'a str {
    let field = format!("name=\"{name}\" value=\"");
    let preview = page.split("id=\"preview\"").nth(1).unwrap();
    let value = preview.split(&field).nth(1);
    value
        .unwrap_or_else(|| panic!("no {name} in {page}"))
        .split('"')
        .next()
        .unwrap()
}

#[tokio::test]
async fn all_tasks_that_match_are_counted_and_changed_by_a_task() {
    let kit = Kit::new().await;
    for n in 0..12 {
        let task = NewTask::new("mail")
            .id(format!("m{n}"))
            .label("team", "a b")
            .paused();
        kit.client.submit(task).await.unwrap();
    }
    kit.submit("other", "pay").await;
    let list = kit
        .page("/tasks?kind=mail&label=team%3Da%20b&order=id&state=paused")
        .await;
    assert!(list.contains("Change all that match…"), "{list}");
    // Regression: from a list of late tasks it changed all of their kind.
    let later = NewTask::new("later").id("later");
    let later = later.start_in(std::time::Duration::from_secs(3600));
    kit.client.submit(later).await.unwrap();
    for (order, is_whole) in [
        ("late&kind=pay", false),
        ("due", false),
        ("due&state=sleeping", true),
        ("submitted", true),
    ] {
        let list = kit.page(&format!("/tasks?order={order}")).await;
        let one = if order.starts_with("due") {
            "later"
        } else {
            "other"
        };
        assert!(list.contains(&format!("/tasks/{one}\"")), "{order}: {list}");
        assert_eq!(list.contains("Change all that match…"), is_whole, "{order}");
    }
    let preview = "/bulk?kind=mail&label=team%3Da%20b&state=paused&action=delete";
    let page = kit.page(preview).await;
    assert!(page.contains("Delete 12 tasks?"), "{page}");
    assert!(
        page.contains(
            "<bdi>windlass bulk delete --kind mail --label 'team=a b' --state paused</bdi>"
        ),
        "{page}"
    );
    let (tasks, key) = (hidden(&page, "tasks"), hidden(&page, "key"));
    assert_eq!(tasks, "12");
    let fields =
        format!("kind=mail&label=team%3Da%20b&state=paused&action=delete&tasks=12&key={key}");
    let next = kit.form("/bulk", &fields).await;
    assert!(next.starts_with("/tasks/bulk-"), "{next}");
    let node = Runner::builder(&kit.store)
        .handler_with(
            bulk::KIND,
            bulk::Handler::config(),
            bulk::Handler::new(&kit.store),
        )
        .handler("pay", |_: TaskContext| async { Message::fail("no money") })
        .start()
        .await
        .unwrap();
    let shown = super::actions::until(&kit, &next, "completed").await;
    assert!(shown.contains("12"), "{shown}");
    let left = kit.page("/tasks?kind=mail").await;
    assert!(left.contains("No task matches."), "{left}");
    // Regression: the list had tasks to which the action cannot apply, and the line was for more tasks than the page.
    kit.submit("live", "bad").await;
    let page = kit.page("/bulk?kind=bad&action=retry").await;
    assert!(page.contains("Retry 0 tasks?"), "{page}");
    let page = kit.page("/bulk?id=live&id=other&action=kill").await;
    assert!(
        page.contains("Kill 1 task?") && !page.contains("/tasks/other"),
        "{page}"
    );
    assert!(
        page.contains("<bdi>windlass bulk kill live other</bdi>"),
        "{page}"
    );
    // Tasks with any error, and every task.
    let page = kit.page("/bulk?error=&action=retry").await;
    assert!(
        page.contains("Retry 1 task?") && page.contains("bulk retry --all --error"),
        "{page}"
    );
    let page = kit.page("/bulk?kind=*&action=delete").await;
    assert!(
        page.contains("all tasks of the store") && page.contains("--all"),
        "{page}"
    );
    // A group of failures leads to its count.
    let failures = super::actions::until(&kit, "/failures", "Retry all…").await;
    let link = failures
        .split('"')
        .find(|part| part.starts_with("/bulk?state=failed&amp;fingerprint="))
        .unwrap();
    let page = kit.page(&link.replace("&amp;", "&")).await;
    assert!(page.contains("Retry 1 task?"), "{page}");
    node.shutdown().await;
}

#[tokio::test]
async fn a_reader_is_offered_no_bulk_operation_and_a_wrong_filter_is_named() {
    let kit = Kit::new().await;
    kit.submit("a", "mail").await;
    let reader = kit.token("reads", Role::Read, &[]).await;
    let list = kit.call_as(&reader, "GET /tasks", "").await;
    assert!(!list.text.contains("Change all"), "{}", list.text);
    let refused = kit
        .call_as(&reader, "GET /bulk?action=kill&kind=mail", "")
        .await;
    assert_eq!(refused.status, 403, "{}", refused.text);
    for (path, says) in [
        ("/bulk?kind=mail", "choose one on"),
        ("/bulk?action=kill&waits=limit", "waits"),
        ("/bulk?action=kill&label=%3Dx", "label"),
    ] {
        let refused = kit.get(path).await;
        assert_eq!(refused.status, 400, "{}", refused.text);
        assert!(super::checked(&refused).contains(says), "{}", refused.text);
    }
}

#[tokio::test]
async fn the_overview_shows_what_the_tasks_do_now() {
    let kit = Kit::new().await;
    kit.submit("a", "pay").await;
    let first = kit.page("/").await;
    assert!(first.contains("id=\"rates\""), "{first}");
    let node = Runner::builder(&kit.store)
        .handler("pay", |_: TaskContext| async { Message::fail("no money") })
        .start()
        .await
        .unwrap();
    let page = super::actions::until(&kit, "/", "Failing kinds").await;
    assert!(page.contains("href=\"/tasks?kind=pay\""), "{page}");
    node.shutdown().await;
}

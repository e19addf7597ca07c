//! The code of `docs/learn/testing.md`, of `docs/learn/guide-service.md` and of the README's section on tests, as tests.
#![cfg(feature = "testing")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod page {
    use std::time::Duration;

    use windlass::{
        ActionKind, BoxError, Command, Message, NewTask, TaskContext,
        testing::{self, Call, Simulation},
    };

    /// Imports one page a minute. The props are the number of pages.
    async fn import(task: TaskContext) -> Result<Message, BoxError> {
        let (pages, done): (u32, u32) = (task.props()?, task.data()?.unwrap_or(0));
        if task.should_stop() {
            return Ok(task.stop_requested().await.message());
        }
        // … import page number `done` …
        if done + 1 >= pages {
            return Ok(Message::complete_with(pages));
        }
        Ok(Message::sleep_for(Duration::from_secs(60)).with_data(&(done + 1)))
    }

    #[tokio::test]
    async fn imports_the_next_page() -> Result<(), BoxError> {
        let ran = testing::run(import, 3, Some(1.into())).await?;
        assert_eq!(ran.kind(), ActionKind::Sleep);
        assert_eq!(ran.data()?, Some(2));
        Ok(())
    }

    #[tokio::test]
    async fn gives_way_to_a_pause() -> Result<(), BoxError> {
        let ran = Call::new()
            .props(&3)
            .command(Command::Pause)
            .run(import)
            .await?;
        assert_eq!(ran.kind(), ActionKind::Pause);
        Ok(())
    }

    async fn sum(task: TaskContext) -> Result<Message, BoxError> {
        let parts: Vec<u64> = task.waited().outputs().all().await?;
        Ok(Message::complete_with(parts.iter().sum::<u64>()))
    }

    #[tokio::test]
    async fn sums_what_completed() -> Result<(), BoxError> {
        let call = Call::new().waited_output("a", &40).waited_output("b", &2);
        assert_eq!(call.run(sum).await?.result()?, Some(42));
        let ran = Call::new().waited_failure("a", "no disk").run(sum).await?;
        assert_eq!(ran.error(), Some("task 'a' failed: no disk"));
        Ok(())
    }

    #[tokio::test]
    async fn imports_a_day() -> Result<(), BoxError> {
        let pages = 60 * 24;
        let mut simulation = Simulation::builder()
            .handler("import", import)
            .start()
            .await?;
        let began = simulation.now();
        let task = NewTask::new("import").props(&pages);
        let id = simulation.client().submit(task).await?;

        simulation.advance(Duration::from_secs(600)).await?; // pages 0 to 10
        simulation.command(&id, Command::Pause).await?;
        simulation.advance(Duration::from_secs(3600)).await?; // nothing runs
        simulation.command(&id, Command::Run).await?;
        let done = simulation.run(&id).await?;

        assert_eq!(done.result::<u32>()?, pages);
        let took = simulation.now().duration_since(began);
        assert_eq!(took.as_mins(), i64::from(pages) - 2 + 60);
        Ok(())
    }

    #[tokio::test]
    async fn survives_every_crash() -> Result<(), BoxError> {
        let task = NewTask::new("import").props(&5);
        let crashes = testing::crash_everywhere(import, task, |done| {
            assert_eq!(done.result::<u32>().unwrap(), 5);
        })
        .await?;
        assert_eq!(crashes.ends.len() as u64, 1 + 2 * crashes.writes);
        Ok(())
    }

    #[tokio::test]
    async fn writes_its_history() -> Result<(), BoxError> {
        let mut simulation = Simulation::builder()
            .handler("import", import)
            .start()
            .await?;
        let task = NewTask::new("import").props(&2);
        let id = simulation.client().submit(task).await?;
        simulation.run(&id).await?;
        let history = simulation.history(&id).await?;
        history.assert_messages(&[ActionKind::Sleep, ActionKind::Complete]);
        assert_eq!((history.claims(), history.lost()), (2, 0));
        Ok(())
    }
}

#[allow(unreachable_pub, reason = "a guide shows it as a module of a service")]
#[path = "testing_page/service.rs"]
mod service;

mod readme {
    use std::time::Duration;

    use serde::{Deserialize, Serialize};
    use windlass::{BoxError, Job, Message, TaskContext};

    #[derive(Serialize, Deserialize, Job)]
    #[job(kind = "countdown", data = u32, output = String)]
    struct Countdown {
        from: u32,
    }

    async fn count_down(task: TaskContext<Countdown>) -> Result<Message<Countdown>, BoxError> {
        let left = task.data()?.unwrap_or(task.job().from);
        if left == 0 {
            return Ok(Message::complete_with("lift-off".into()));
        }
        Ok(Message::sleep_for(Duration::from_secs(1)).with_data(&(left - 1)))
    }

    use windlass::testing; // [dev-dependencies] windlass = { version = "0.1", features = ["testing"] }

    #[tokio::test]
    async fn the_countdown_survives_every_crash() -> Result<(), BoxError> {
        let ran = testing::run(count_down, Countdown { from: 3 }, Some(2.into())).await?; // one run
        assert_eq!(ran.data()?, Some(1));

        let check = |done: &windlass::client::Done| assert!(done.is_completed());
        testing::crash_everywhere(count_down, Countdown { from: 3 }, check).await?; // a node is lost at every write
        Ok(())
    }
}

/// Every block of Rust of the pages, and the one of the README about tests, is code of these files.
#[test]
fn the_pages_show_the_code_of_this_file() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |name: &str| std::fs::read_to_string(root.join(name)).unwrap();
    let files = [
        "tests/handlers/testing_page.rs",
        "tests/handlers/testing_page/service.rs",
    ]
    .map(read);
    let own: Vec<&str> = files.iter().flat_map(|text| text.lines()).collect();
    let own: Vec<&str> = own.into_iter().map(str::trim).collect();
    let own = own.join("\n");
    let readme = read("README.md");
    let readme = readme.split("## Test your handler").nth(1).unwrap();
    let readme = readme.split("\n## ").next().unwrap();
    let mut blocks = 0;
    let [page, guide] =
        ["testing", "guide-service"].map(|page| read(&format!("docs/learn/{page}.md")));
    for text in [&page, &guide, readme] {
        for block in text.split("```rust\n").skip(1) {
            let lines = block.split("\n```").next().unwrap().lines();
            let lines: Vec<&str> = lines.map(str::trim).collect();
            assert!(own.contains(&lines.join("\n")), "{block}");
            blocks += 1;
        }
    }
    assert_eq!(blocks, 11);
}

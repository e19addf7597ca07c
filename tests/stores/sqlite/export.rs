//! Exports a store to a file and imports it: everything arrives, and errors in a file are reported before
//! anything is written.

use windlass::{
    BoxError, Client, Message, NewTask, Runner, TaskContext,
    clock::SystemClock,
    store::{
        Store,
        copy::{FileError, Import},
    },
};

use super::{
    exported::{OnDisk, all, fill, pass},
    support::{File, file, id},
};

async fn open(file: &File) -> Store {
    let store = std::sync::Arc::new(file.open().await);
    Store::from_parts(store.clone(), store, SystemClock::shared())
}

async fn memory() -> Store {
    Store::open("memory:").await.unwrap()
}

async fn never(_: TaskContext) -> Message {
    std::future::pending().await
}

/// A file with the tasks of a filled store.
async fn filled() -> Result<OnDisk, BoxError> {
    let store = memory().await;
    fill(&store).await?;
    OnDisk::of(&store).await
}

#[tokio::test]
async fn every_sort_of_task_goes_through_a_file_from_store_to_store() -> Result<(), BoxError> {
    let (first, last) = (file(), file());
    let (first, between, last) = (open(&first).await, memory().await, open(&last).await);
    fill(&first).await?;
    let report = pass(&first, &between).await?;
    assert_eq!(report.copied, report.tasks);
    pass(&between, &last).await?;
    assert!(all(&last).await?.len() > 8);
    Ok(())
}

#[tokio::test]
async fn a_cut_file_and_a_wrong_line_write_nothing() -> Result<(), BoxError> {
    let export = filled().await?;
    let text = std::fs::read_to_string(export.path())?;
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let put = |lines: &[String]| std::fs::write(export.path(), lines.join("\n") + "\n").unwrap();
    let target = file();
    let store = open(&target).await;
    let refused = async |lines: &[String]| {
        put(lines);
        let error = store
            .import(&export.opened(), &Import::new(), |_| ())
            .await
            .unwrap_err();
        assert!(all(&store).await.unwrap().is_empty());
        error
    };
    let cut = refused(&lines[..lines.len() - 1]).await;
    assert!(
        matches!(cut, FileError::Cut { lines: n } if n == lines.len() as u64 - 1),
        "{cut}"
    );
    let mut wrong = lines.clone();
    wrong[4] = wrong[4].replace(r#""kind":"#, r#""kinds":"#);
    let FileError::Line { line: 5, reason } = refused(&wrong).await else {
        panic!("the line is not named");
    };
    assert!(
        reason.starts_with("task: 'kinds' is not a field"),
        "{reason}"
    );
    let mut twice = lines.clone();
    let again = twice[3].clone();
    let order = |n: u64| format!(r#""order":{n},"submitted_at""#);
    let found = again.split(r#""order":"#).nth(1).unwrap();
    let number: u64 = found.split(',').next().unwrap().parse()?;
    twice.insert(4, again.replace(&order(number), &order(number + 1)));
    let FileError::Line { line: 5, .. } = refused(&twice).await else {
        panic!("the line is not named");
    };
    let mut fewer = lines.clone();
    fewer.remove(4);
    assert!(matches!(refused(&fewer).await, FileError::Line { .. }));
    put(&lines);
    assert!(
        store
            .import(&export.opened(), &Import::new(), |_| ())
            .await?
            .is_whole()
    );
    Ok(())
}

#[tokio::test]
async fn an_import_goes_on_where_it_stopped_and_can_be_repeated() -> Result<(), BoxError> {
    let export = filled().await?;
    let target = file();
    let store = open(&target).await;
    let first = store
        .import(&export.opened(), &Import::new(), |_| ())
        .await?;
    assert!(first.is_whole());
    let again = store
        .import(&export.opened(), &Import::new(), |_| ())
        .await?;
    assert!(again.is_whole());
    assert_eq!((again.copied, again.same), (0, first.tasks));
    // As if the import had been killed before its last tasks.
    for last in ["hourly", "due"] {
        store.registry().delete(vec![id(last)]).await.remove(0)?;
    }
    let rest = store
        .import(&export.opened(), &Import::new(), |_| ())
        .await?;
    assert!(rest.is_whole(), "{rest:#?}");
    assert_eq!((rest.copied, rest.same), (2, first.tasks - 2));
    Ok(())
}

#[tokio::test]
async fn a_store_with_other_tasks_takes_none() -> Result<(), BoxError> {
    let export = filled().await?;
    let target = file();
    let store = open(&target).await;
    let client = Client::new(&store);
    client.submit(NewTask::new("k").id("mine")).await?;
    let error = store
        .import(&export.opened(), &Import::new(), |_| ())
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "the store has 1 task that the file does not have, 'mine' for example; import into an empty store"
    );
    client.delete(&id("mine")).await?;
    // Another task with an id of the file.
    client.submit(NewTask::new("other").id("due")).await?;
    let report = store
        .import(&export.opened(), &Import::new(), |_| ())
        .await?;
    assert_eq!((report.copied, report.left.len()), (0, 1));
    assert_eq!(report.left[0].id, id("due"));
    assert!(
        report.left[0].reason.contains("another task has its id"),
        "{report:?}"
    );
    assert_eq!(all(&store).await?.len(), 1, "nothing was written");
    Ok(())
}

#[tokio::test]
async fn a_task_that_cannot_be_read_is_named_in_the_file() -> Result<(), BoxError> {
    let source = file();
    let store = open(&source).await;
    fill(&store).await?;
    let damage = "UPDATE windlass_states SET state = '{' WHERE n = (SELECT n FROM windlass_tasks WHERE id = 'due')";
    source.raw().execute_batch(damage)?;
    let export = OnDisk::of(&store).await?;
    assert!(!export.written.is_whole());
    assert_eq!(export.written.left[0].id, id("due"));
    let target = memory().await;
    // Tasks that wait for the missing one would run at once.
    let refused = target
        .import(&export.opened(), &Import::new(), |_| ())
        .await;
    let refused = refused.unwrap_err();
    assert!(
        matches!(&refused, FileError::Incomplete { count: 1, first } if first == "due"),
        "{refused}"
    );
    assert!(all(&target).await?.is_empty(), "nothing was written");
    let how = Import::new().accept_missing();
    let report = target.import(&export.opened(), &how, |_| ()).await?;
    assert!(!report.is_whole());
    assert_eq!((report.copied, report.left.len()), (report.tasks - 1, 1));
    let left = &report.left[0];
    assert!(
        left.reason.starts_with("the file does not have it: "),
        "{left:?}"
    );
    Ok(())
}

#[tokio::test]
async fn nodes_are_named_that_work_on_the_store() -> Result<(), BoxError> {
    let source = file();
    let store = open(&source).await;
    let runner = Runner::builder(&store)
        .node("busy")
        .handler("k", never)
        .start()
        .await?;
    let error = store.export(Vec::new(), |_| ()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "store: has nodes that work: busy; stop them, or drain them first"
    );
    let export = filled().await?;
    let error = store
        .import(&export.opened(), &Import::new(), |_| ())
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("has nodes that live: busy"),
        "{error}"
    );
    runner.shutdown().await;
    assert!(
        store
            .import(&export.opened(), &Import::new(), |_| ())
            .await?
            .is_whole()
    );
    Ok(())
}

/// Its id cannot be read, so that tasks that wait for it would run at once.
#[tokio::test]
async fn a_file_with_a_task_without_an_id_is_refused() -> Result<(), BoxError> {
    let source = file();
    let store = open(&source).await;
    fill(&store).await?;
    let damage = "UPDATE windlass_tasks SET id = CAST(x'ff' AS TEXT) WHERE id = 'due'";
    source.raw().execute_batch(damage)?;
    let export = OnDisk::of(&store).await?;
    let target = memory().await;
    let refused = target
        .import(&export.opened(), &Import::new(), |_| ())
        .await;
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("windlass_tasks"), "{refused}");
    assert!(all(&target).await?.is_empty(), "nothing was written");
    let how = Import::new().accept_missing();
    let report = target.import(&export.opened(), &how, |_| ()).await?;
    assert_eq!(report.copied, report.tasks);
    Ok(())
}

/// The names of what is beside the file of a store.
fn beside(file: &File) -> Vec<String> {
    let entries = std::fs::read_dir(file.folder()).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

/// A writer that moves a task by another connection before the first line is written.
struct Moving<'a> {
    file: &'a File,
    text: Vec<u8>,
    beside: Vec<String>,
}

impl std::io::Write for Moving<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.text.is_empty() {
            let move_one = "BEGIN; DELETE FROM windlass_tasks WHERE id = 'a'; \
                            UPDATE windlass_tasks SET id = 'moved' WHERE id = 'b'; COMMIT;";
            self.file.raw().execute_batch(move_one).unwrap();
            self.beside = beside(self.file);
        }
        self.text.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn an_export_is_one_moment_and_its_copy_has_no_name() -> Result<(), BoxError> {
    let file = file();
    let store = open(&file).await;
    let client = Client::new(&store);
    for id in ["a", "b", "c"] {
        client.submit(NewTask::new("k").id(id)).await?;
    }
    // An export that was killed while it copied has left its folder.
    let old = file.folder().join("tasks.db.export-old");
    std::fs::create_dir(&old)?;
    std::fs::write(old.join("copy.db"), "half")?;
    let mut to = Moving {
        file: &file,
        text: Vec::new(),
        beside: Vec::new(),
    };
    let written = store.export(&mut to, |_| ()).await?;
    assert!(written.is_whole());
    assert_eq!((written.tasks, written.gone), (3, 0));
    let text = String::from_utf8(to.text)?;
    for id in ["a", "b", "c"] {
        assert!(text.contains(&format!("\"id\":\"{id}\"")), "{text}");
    }
    assert!(!text.contains("moved"), "{text}");
    let own = ["tasks.db", "tasks.db-shm", "tasks.db-wal"];
    assert_eq!(to.beside, own, "while it is written");
    assert_eq!(beside(&file), own);
    Ok(())
}

/// Fails at the third line.
struct Closed(usize);

impl std::io::Write for Closed {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.iter().filter(|byte| **byte == b'\n').count();
        match self.0 {
            ..3 => Ok(bytes.len()),
            _ => Err(std::io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_failed_export_leaves_no_copy() -> Result<(), BoxError> {
    let file = file();
    let store = open(&file).await;
    fill(&store).await?;
    let failed = store.export(Closed(0), |_| ()).await.unwrap_err();
    assert!(matches!(failed, FileError::Io { .. }), "{failed}");
    assert_eq!(beside(&file), ["tasks.db", "tasks.db-shm", "tasks.db-wal"]);
    Ok(())
}

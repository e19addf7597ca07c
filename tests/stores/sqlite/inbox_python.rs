//! The inbox, as a program in Python uses it.

use std::{
    io::{BufRead, BufReader, Read, Write},
    path::Path,
    process::{Child, Command as Program, Stdio},
};

use windlass::{
    StateKind,
    store::{ChangeKind, Registry},
};

use super::support::*;

/// The program of `examples/inbox.py`.
struct Shop(Child);

impl Shop {
    /// Starts it, and waits until it has inserted the order and the task.
    fn inserted(path: &Path, order: &str) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/inbox.py");
        let mut python = Program::new("python3");
        python.arg(script).arg(path).arg(order);
        python.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = python
            .spawn()
            .expect("python3 runs the example: install it");
        let mut printed = BufReader::new(child.stdout.as_mut().unwrap());
        let mut line = String::new();
        printed.read_line(&mut line).unwrap();
        assert!(line.contains("Enter commits both"), "{line:?}");
        Self(child)
    }

    fn enter(&mut self) {
        self.0.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    }

    fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Shop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns whether the order exists, and whether its task does.
async fn ordered(file: &File, order: &str) -> (bool, bool) {
    let orders = "SELECT EXISTS (SELECT 1 FROM orders WHERE id = ?1)";
    let has_order = file
        .raw()
        .query_row(orders, [order], |row| row.get(0))
        .unwrap();
    let has_task = file
        .open()
        .await
        .get(&id(&format!("invoice-{order}")))
        .await
        .is_ok();
    (has_order, has_task)
}

#[tokio::test]
async fn a_python_program_that_is_killed_leaves_its_row_and_the_task_or_neither() {
    let file = file();
    drop(file.open().await);
    let mut killed = Shop::inserted(&file.path(), "lost");
    killed.kill();
    assert_eq!(ordered(&file, "lost").await, (false, false));

    let mut whole = Shop::inserted(&file.path(), "kept");
    whole.enter();
    let mut rest = String::new();
    whole
        .0
        .stdout
        .as_mut()
        .unwrap()
        .read_to_string(&mut rest)
        .unwrap();
    assert_eq!(rest, "committed\n");
    assert_eq!(ordered(&file, "kept").await, (true, true));

    // Killed while it commits.
    for n in 0..10 {
        let order = format!("race-{n}");
        let mut racing = Shop::inserted(&file.path(), &order);
        racing.enter();
        racing.kill();
        let (has_order, has_task) = ordered(&file, &order).await;
        assert_eq!(has_order, has_task, "{order}");
    }
    let store = file.open().await;
    assert_eq!(code(&store, "invoice-kept").await, StateKind::Runnable);
    let history = store.history(&id("invoice-kept"), 10).await.unwrap();
    assert!(
        matches!(history[0].what, ChangeKind::Submitted { .. }),
        "{history:?}"
    );
}

//! The process group of a command: what ends it, and what ends with it.

use super::*;

#[tokio::test]
async fn a_timeout_ends_the_group_also_what_ignores_sigterm() {
    let node = Node::start().await;
    let mut props = node.family("trap '' TERM; echo working >&2;");
    props["timeout"] = json!("300ms");
    let done = node.run(props).await;
    assert_eq!(done.error(), Some("timed out after 300ms: working"));
    assert_eq!(data(&done).signal, Some(9));
    gone(&node.pids().await).await;
}

#[tokio::test]
async fn what_leaves_the_group_does_not_hold_the_task_up() {
    let node = Node::start().await;
    let file = node.file("escaped");
    let script = format!(
        "setsid sh -c 'echo $$ > {0}; exec sleep 600' & while ! [ -s {0} ]; do sleep 0.01; done; echo done",
        file.display()
    );
    let began = Instant::now();
    let done = node.run(json!({"shell": script})).await;
    let waited = began.elapsed();
    assert_eq!(result(&done).stdout, "done\n");
    assert!(waited < Duration::from_secs(5), "{waited:?}");
    let pid = content(&file).await.trim().parse().unwrap();
    assert!(Stat::of(pid).is_some(), "it left the group of its own will");
    process::signal_group(pid, Signal::SIGKILL).unwrap();
}

#[tokio::test]
async fn what_a_command_leaves_in_its_group_ends_with_it() {
    let node = Node::start().await;
    let file = node.file("left");
    let script = format!("sleep 600 & echo $! > {}", file.display());
    let done = node.run(json!({"shell": script})).await;
    assert_eq!(result(&done).exit_code, Some(0));
    gone(&[content(&file).await.trim().parse().unwrap()]).await;
}

#[tokio::test]
async fn kill_reaches_the_whole_group() {
    let node = Node::start().await;
    let id = node.submit(node.family("")).await;
    let pids = node.pids().await;
    node.client.command(&id, Command::Kill).await.unwrap();
    let done = timeout(LONG, node.client.wait(&id)).await.unwrap().unwrap();
    assert_eq!(done.code(), StateKind::Killed);
    gone(&pids).await;
}

#[tokio::test]
async fn an_abort_kills_the_group() {
    let node = Node::start().await;
    node.submit(node.family("trap '' TERM;")).await;
    let pids = node.pids().await;
    node.runner.abort().await;
    gone(&pids).await;
}

#[tokio::test]
async fn the_output_of_what_left_the_group_is_kept_for_a_moment_after_the_end_of_the_command() {
    let node = Node::start().await;
    let file = node.file("left");
    let script = format!(
        "setsid sh -c 'touch {0}; sleep 0.2; echo late' & until [ -e {0} ]; do sleep 0.01; done; echo done",
        file.display()
    );
    let done = node.run(json!({"shell": script})).await;
    assert_eq!(result(&done).stdout, "done\nlate\n");
}

/// The program is written to for longer than a moment, as an installation does.
#[tokio::test]
async fn a_command_waits_for_its_program_while_it_is_being_replaced() {
    let node = Node::start().await;
    let program = node.file("program");
    std::fs::copy("/bin/true", &program).unwrap();
    let writer = std::fs::OpenOptions::new().append(true).open(&program);
    let id = node.submit(json!({"command": program})).await;
    sleep(Duration::from_secs(2)).await;
    let state = node.client.get(&id).await.unwrap().state.unwrap();
    let (code, attempts, claims) = (state.code(), state.attempts, state.claims);
    assert_eq!((code, attempts, claims), (StateKind::Runnable, 0, 1));
    drop(writer);
    let done = timeout(LONG, node.client.wait(&id)).await.unwrap().unwrap();
    assert_eq!(result(&done).exit_code, Some(0));
}

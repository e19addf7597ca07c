//! The results of the tasks that a run has waited for, and the client of a handler, in calls and simulations.

use std::time::Duration;

use windlass::{
    BoxError, Client, Message, NewTask, Store, TaskContext, WaitOutcome,
    handler::NoOutput,
    testing::{Call, Simulation},
};

/// Naps, and completes with the square of its props.
async fn square(task: TaskContext) -> Result<Message, BoxError> {
    let number: u64 = task.props()?;
    match task.data::<bool>()? {
        None => Ok(Message::sleep_for(Duration::from_secs(number)).with_data(&true)),
        Some(_) => Ok(Message::complete_with(number * number)),
    }
}

/// Sums the squares of its props.
async fn sum(task: TaskContext) -> Result<Message, BoxError> {
    let numbers: Vec<u64> = task.props()?;
    let id = |number: &u64| format!("square-{number}");
    if task.waited().is_empty() {
        let message = Message::wait_for_ok(numbers.iter().map(id));
        let submit = |message: Message, number: &u64| {
            message.and_submit(NewTask::new("square").id(id(number)).props(number))
        };
        return Ok(numbers.iter().fold(message, submit));
    }
    let squares: Vec<u64> = task.waited().outputs().all().await?;
    task.checkpoint(&squares.len()).await?;
    Ok(Message::complete_with(squares.iter().sum::<u64>()))
}

#[tokio::test]
async fn a_join_in_a_simulation_reads_its_children_after_every_crash() {
    let task = NewTask::new("sum").id("s").props(&[1, 2, 3]);
    let crashes = Simulation::builder()
        .handler("sum", sum)
        .handler("square", square)
        .crash_everywhere(task, |done| {
            assert_eq!(done.result::<u64>().unwrap(), 14);
        });
    let crashes = crashes.await.unwrap();
    assert!(crashes.writes > 8, "{}", crashes.writes);
}

/// What a handler submits with its client runs in the same simulation, and in its time.
#[tokio::test]
async fn a_client_in_a_simulation_has_its_store_and_its_clock() {
    let submits = |task: TaskContext| async move {
        let client = task.client();
        let new = NewTask::new("square").id("late").props(&2);
        let new = new.start_in(Duration::from_secs(3600));
        client.submit(new.idempotent()).await?;
        Ok::<_, BoxError>(Message::complete_with(client.now()))
    };
    let mut simulation = Simulation::builder()
        .handler("submits", submits)
        .handler("square", square)
        .start()
        .await
        .unwrap();
    let began = simulation.now();
    let id = simulation.client().submit(NewTask::new("submits")).await;
    let done = simulation.run(&id.unwrap()).await.unwrap();
    assert_eq!(done.result::<jiff::Timestamp>().unwrap(), began);
    let late = simulation.run("late").await.unwrap();
    assert_eq!(late.result::<u64>().unwrap(), 4);
    let took = simulation.now().duration_since(began);
    assert_eq!(took.as_secs(), 3602);
}

#[tokio::test]
async fn a_call_has_the_outcome_and_the_output_of_each_task() {
    let reads = |task: TaskContext| async move {
        let mut seen = Vec::new();
        let mut outputs = task.waited().outputs::<u64>();
        while let Some(one) = outputs.next().await? {
            let how = match &one.output {
                Ok(number) => format!("{number}"),
                Err(NoOutput::Failed(failed)) => format!("{} {:?}", failed.code, failed.error),
                Err(NoOutput::Missing(_)) => "missing".to_owned(),
                Err(NoOutput::Live(_)) => "live".to_owned(),
                Err(NoOutput::Unreadable { .. }) => "unreadable".to_owned(),
                Err(other) => other.to_string(),
            };
            seen.push(format!("{} {}: {how}", one.task, one.outcome));
        }
        Ok::<_, BoxError>(Message::complete_with(seen))
    };
    let id = |text: &str| text.parse().unwrap();
    let call = Call::new()
        .waited_output("z", &7)
        .waited_output("text", "no number")
        .waited_failure("bad", "no disk")
        .waited(id("killed"), WaitOutcome::Killed)
        .waited(id("none"), WaitOutcome::Unknown)
        .waited(id("live"), WaitOutcome::Live)
        .waited(id("null"), WaitOutcome::Completed);
    let seen: Vec<String> = call.run(reads).await.unwrap().result().unwrap().unwrap();
    assert_eq!(
        seen,
        [
            "z completed: 7",
            "text completed: unreadable",
            "bad failed: failed Some(\"no disk\")",
            "killed killed: killed None",
            "none unknown: missing",
            "live live: live",
            "null completed: unreadable",
        ]
    );
}

#[tokio::test]
async fn the_store_of_a_call_has_the_tasks_that_the_run_has_waited_for() {
    let store = Store::open("memory:").await.unwrap();
    let client = Client::new(&store);
    client.submit(NewTask::new("k").id("own")).await.unwrap();
    let reads = |task: TaskContext| async move {
        let part = task.client().wait("part").await?;
        Ok::<_, BoxError>(Message::complete_with(part.result::<u64>()?))
    };
    let call = Call::new().store(&store).waited_output("part", &7);
    let call = call.waited("own".parse().unwrap(), WaitOutcome::Completed);
    let ran = call.clone().run(reads).await.unwrap();
    assert_eq!(ran.result::<u64>().unwrap(), Some(7));
    let own = client.get("own").await.unwrap();
    assert_eq!(own.task.kind.as_str(), "k", "the task of the store stays");
    assert!(call.run(reads).await.is_ok(), "a call may be run again");
    let wrong = Call::new().waited_output("a/b", &7).run(reads).await;
    assert_eq!(wrong.unwrap_err().field(), "id");
}

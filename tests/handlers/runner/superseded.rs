//! Another writer of the claim was first: the node continues from the state of the store.

use windlass::{
    Message, NewTask, TaskContext, TaskStatus,
    statemachine::machine::Write,
    store::{Claim, Commit},
};

use super::support::{World, secs};

#[tokio::test(start_paused = true)]
async fn a_node_claims_a_task_again_whose_write_was_superseded() {
    let world = World::new().await;
    let node = world
        .node("n")
        .handler("work", |task: TaskContext| async move {
            match task.data::<u32>() {
                Ok(None) => {
                    task.checkpoint(&1).await.unwrap();
                    task.checkpoint(&2).await.unwrap();
                    tokio::time::sleep(secs(10)).await;
                    let refused = task.checkpoint(&3).await;
                    assert!(refused.is_err(), "its node follows an earlier state");
                    std::future::pending().await
                }
                Ok(Some(data)) => Message::complete_with(data),
                Err(error) => Message::fail(error),
            }
        })
        .start()
        .await
        .unwrap();
    let id = world.client.submit(NewTask::new("work")).await.unwrap();
    world
        .until("the handler has made both checkpoints", || async {
            let state = world.client.get(&id).await.unwrap().state.unwrap();
            state.data.is_some_and(|data| data.as_str() == "2")
        })
        .await;

    // A second writer of the same claim, such as a server that acts for a worker.
    let record = world.client.get(&id).await.unwrap();
    let nodes = world.client.nodes().await.unwrap();
    let state = record.state.unwrap();
    let claim = Claim::new(id.id().clone(), record.fence, nodes[0].lease, record.order);
    let mut write = Write::releasing(state.clone());
    write.drop_claim = false;
    write.state.data = Some(windlass::Json::new("data", &7).unwrap());
    let second = Commit::new(claim, write);
    let coordinator = world.store.coordinator();
    coordinator.commit(vec![second]).await.remove(0).unwrap();

    // The handler's next checkpoint follows the state before. Its node runs the task again, on the data of the
    // second writer, under its own claim.
    let done = world.client.wait(&id).await.unwrap();
    let TaskStatus::Completed { result } = &done.state.status else {
        panic!("{done:?}");
    };
    assert_eq!(result.as_ref().unwrap().as_str(), "7");
    assert_eq!(done.state.claims, 2);
    node.shutdown().await;
}

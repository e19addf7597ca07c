//! A namespace goes through a file into another one and into another store.

use windlass::{BoxError, store::Store};

use crate::{
    exported::{fill, pass},
    server::Server,
    support::open,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_sort_of_task_goes_through_a_file_from_layout_to_layout() -> Result<(), BoxError> {
    let server = Server::start();
    let (first, _) = open(&server.url("first")).await;
    fill(&first).await?;
    let shared = format!("{}?metafora-nodes=true", server.url("shared"));
    let (shared, _) = open(&shared).await;
    pass(&first, &shared).await?;
    let memory = Store::open("memory:").await?;
    pass(&shared, &memory).await?;
    let (last, _) = open(&server.url("last")).await;
    pass(&memory, &last).await?;
    Ok(())
}

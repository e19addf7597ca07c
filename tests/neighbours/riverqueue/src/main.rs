//! One program that links the store of windlass and riverqueue, whose jobs move over to windlass one by one.

use windlass::{BoxError, Store};

/// The arguments of a job that is still in the other queue.
pub type Queued = riverqueue::Job<()>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    Store::open("sqlite:tasks.db").await?;
    Ok(())
}

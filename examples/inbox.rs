//! Varies `countdown`: a program keeps its own tables in the file of its tasks, and submits a task in the same
//! SQL transaction as its own change. Either both are there, or neither. `inbox.py` does the same in Python.
//!
//! ```sh
//! cargo run --example inbox
//! ```

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use windlass::{
    BoxError, Client, Message, NewTask, Runner, TaskContext,
    store::{
        Store,
        sqlite::{inbox, rusqlite::Connection},
    },
};

async fn invoice(task: TaskContext) -> Result<Message, BoxError> {
    let order: String = task.props()?;
    Ok(Message::complete_with(format!("invoice for {order}")))
}

/// Stores an order and submits the task that writes its invoice. Blocks, as SQLite does.
fn order(shop: &mut Connection, order: &str) -> Result<(), BoxError> {
    let transaction = shop.transaction()?;
    transaction.execute("INSERT INTO orders VALUES (?1)", [order])?;
    let task = NewTask::new("invoice")
        .id(format!("invoice-{order}"))
        .props(order);
    inbox::submit(&transaction, task)?;
    transaction.commit()?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let store = Store::open("sqlite:shop.db").await?;
    let runner = Runner::builder(&store)
        .handler("invoice", invoice)
        .start()
        .await?;

    let mut shop = Connection::open("shop.db")?;
    shop.execute_batch("CREATE TABLE IF NOT EXISTS orders (id TEXT PRIMARY KEY)")?;
    order(&mut shop, "o-17")?;
    // The same order again: neither the row nor a task.
    assert!(order(&mut shop, "o-17").is_err());

    let client = Client::new(&store);
    while client.get("invoice-o-17").await.is_err() {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let done = client.wait("invoice-o-17").await?;
    println!("{}", done.result::<String>()?);
    runner.shutdown().await;
    Ok(())
}

//! One program with a store of windlass and a pool of sqlx: a task writes a row through the pool.

use sqlx::{SqlitePool, query, query_scalar};
use windlass::{BoxError, Client, Message, NewTask, Runner, Store, TaskContext};

async fn order(task: TaskContext) -> Result<Message, BoxError> {
    let orders: &SqlitePool = task.state()?;
    let item: String = task.props()?;
    // A task can run again after a crash, so a row that is there already stays.
    let insert = query("INSERT OR IGNORE INTO orders (id, item) VALUES (?, ?)");
    let insert = insert.bind(task.id().as_str()).bind(item);
    insert.execute(orders).await?;
    let count = query_scalar("SELECT count(*) FROM orders");
    let count: i64 = count.fetch_one(orders).await?;
    Ok(Message::complete_with(count))
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let folder = tempfile::tempdir()?;
    let url = |file: &str| format!("sqlite:{}", folder.path().join(file).display());
    let orders = SqlitePool::connect(&(url("orders.db") + "?mode=rwc")).await?;
    let table = query("CREATE TABLE orders (id TEXT PRIMARY KEY, item TEXT)");
    table.execute(&orders).await?;
    let store = Store::open(&url("tasks.db")).await?;
    let runner = Runner::builder(&store).state(orders.clone());
    let runner = runner.handler("order", order).start().await?;
    let task = NewTask::new("order").props("rope");
    let task = Client::new(&store).submit(task).await?;
    println!("orders: {}", task.wait::<i64>().await?);
    runner.shutdown().await;
    Ok(())
}

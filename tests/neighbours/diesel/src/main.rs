//! One program that links the store of windlass and diesel.

use diesel::{Connection, SqliteConnection, connection::SimpleConnection};
use windlass::{BoxError, Store};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let mut orders = SqliteConnection::establish(":memory:")?;
    orders.batch_execute("CREATE TABLE orders (id TEXT PRIMARY KEY)")?;
    Store::open("sqlite:tasks.db").await?;
    Ok(())
}

//! One program that links the store of windlass and sea-orm.

use sea_orm::{Database, DbErr};
use windlass::{BoxError, Store};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let orders = Database::connect("sqlite::memory:").await?;
    let ping: Result<(), DbErr> = orders.ping().await;
    ping?;
    Store::open("sqlite:tasks.db").await?;
    Ok(())
}

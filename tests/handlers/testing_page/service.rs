//! The code of `docs/learn/guide-service.md`.
#![allow(dead_code, reason = "the service is compiled, and not run")]

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use windlass::{BoxError, Client, Job, Message, NewTask, Runner, Store, TaskContext};

/// What the handler needs of the shop. The service has the real one, a test its own.
pub trait Shop: Send + Sync {
    fn is_paid(&self, order: u32) -> Result<bool, BoxError>;
    /// Sends a mail. The mail server drops a second one with the same key.
    fn remind(&self, order: u32, key: &str) -> Result<(), BoxError>;
}

/// The data and the output are the number of reminders that were sent.
#[derive(Serialize, Deserialize, Job)]
#[job(kind = "chase", data = u32, output = u32)]
pub struct Chase {
    pub order: u32,
}

const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);

pub async fn chase(task: TaskContext<Chase>) -> Result<Message<Chase>, BoxError> {
    let shop = task.state::<Arc<dyn Shop>>()?;
    let (order, sent) = (task.job().order, task.data()?.unwrap_or(0));
    if shop.is_paid(order)? {
        return Ok(Message::complete_with(sent));
    }
    if sent == 3 {
        return Ok(Message::fail(format!("order {order} is not paid")));
    }
    shop.remind(order, &format!("{}-{sent}", task.id()))?;
    Ok(Message::sleep_for(WEEK).with_data(&(sent + 1)))
}

fn connect() -> Result<Arc<dyn Shop>, BoxError> {
    Ok(shop(9))
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    tracing_subscriber::fmt().init();
    let store = Store::open("sqlite:shop.db").await?;
    let shop: Arc<dyn Shop> = connect()?;
    let runner = Runner::builder(&store)
        .state(shop)
        .job(chase)
        .start()
        .await?;
    let client = Client::new(&store);
    order_placed(&client, 7).await?; // in a real shop: from the request that places the order
    runner.run_until_signal().await?; // until SIGTERM or ctrl-c; then releases its tasks
    Ok(())
}

/// Starts the reminders of an order. Called twice for one order, it starts them once.
async fn order_placed(client: &Client, order: u32) -> Result<(), BoxError> {
    let task = NewTask::of(Chase { order }).id(format!("order-{order}"));
    client.submit(task.start_in(WEEK).idempotent()).await?;
    Ok(())
}

use std::sync::Mutex;

use windlass::testing::{Call, Simulation};

/// A shop whose orders are paid after some reminders.
struct Fake {
    paid_after: usize,
    keys: Mutex<Vec<String>>,
}

impl Shop for Fake {
    fn is_paid(&self, _: u32) -> Result<bool, BoxError> {
        Ok(self.keys.lock().unwrap().len() >= self.paid_after)
    }

    fn remind(&self, _: u32, key: &str) -> Result<(), BoxError> {
        let mut keys = self.keys.lock().unwrap();
        if !keys.iter().any(|sent| sent == key) {
            keys.push(key.to_owned());
        }
        Ok(())
    }
}

fn shop(paid_after: usize) -> Arc<dyn Shop> {
    let keys = Mutex::default();
    Arc::new(Fake { paid_after, keys })
}

#[tokio::test]
async fn an_unpaid_order_is_reminded() -> Result<(), BoxError> {
    let task = NewTask::of(Chase { order: 7 }).untyped();
    let ran = Call::new().task(task).state(shop(1)).run(chase).await?;
    assert_eq!(ran.data()?, Some(1));
    Ok(())
}

#[tokio::test]
async fn after_three_reminders_the_task_fails() -> Result<(), BoxError> {
    let simulation = Simulation::builder().job(chase).state(shop(9));
    let mut simulation = simulation.start().await?;
    let began = simulation.now();
    let id = simulation
        .client()
        .submit(NewTask::of(Chase { order: 7 }))
        .await?
        .into_id();
    let done = simulation.run(&id).await?;
    assert!(!done.is_completed());
    assert_eq!(
        simulation.now().duration_since(began).as_hours(),
        3 * 7 * 24
    );
    Ok(())
}

#[tokio::test]
async fn no_crash_sends_a_reminder_twice() -> Result<(), BoxError> {
    let shop = Arc::new(Fake {
        paid_after: 9,
        keys: Mutex::default(),
    });
    let reset = shop.clone();
    let crashes = Simulation::builder()
        .job(chase)
        .state::<Arc<dyn Shop>>(shop.clone())
        .before(move || reset.keys.lock().unwrap().clear()) // each life has an empty shop
        .crash_everywhere(NewTask::of(Chase { order: 7 }).untyped(), |_| {
            assert_eq!(shop.keys.lock().unwrap().len(), 3);
        })
        .await?;
    assert_eq!(crashes.writes, 4);
    Ok(())
}

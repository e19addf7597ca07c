//! The values that the handlers of a simulation share.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU64, Ordering},
};

use windlass::{
    BoxError, Message, NewTask, TaskContext,
    client::Done,
    testing::{CrashError, CrashPoint, Simulation, simulation::Error},
};

/// The keys of mails: the server drops a second one with the same key.
#[derive(Clone, Default)]
struct Mails(Arc<Mutex<Vec<String>>>);

impl Mails {
    fn send(&self, key: String) {
        let mut mails = self.0.lock().unwrap();
        if !mails.contains(&key) {
            mails.push(key);
        }
    }
}

async fn one_key(task: TaskContext) -> Result<Message, BoxError> {
    task.state::<Mails>()?.send(task.id().to_string());
    Ok(Message::complete())
}

/// Has a defect: the key is another one in each run.
async fn new_keys(task: TaskContext) -> Result<Message, BoxError> {
    let key = format!("{}-{}", task.id(), task.attempt());
    task.state::<Mails>()?.send(key);
    Ok(Message::complete())
}

/// All lives shared the mails of the first one, so that no check of them found what a crash had done.
#[tokio::test]
async fn what_is_outside_is_reset_before_each_life_and_a_crash_keeps_it() {
    let (mails, resets) = (Mails::default(), Arc::new(AtomicU64::new(0)));
    let (kept, counted) = (mails.clone(), resets.clone());
    let simulation = Simulation::builder().state(mails.clone());
    let simulation = simulation.before(move || {
        counted.fetch_add(1, Ordering::SeqCst);
        kept.0.lock().unwrap().clear();
    });
    let one_mail = |_: &Done| assert_eq!(mails.0.lock().unwrap().len(), 1);
    let right = simulation.clone().handler("mail", one_key);
    let crashes = right.crash_everywhere(NewTask::new("mail"), one_mail).await;
    let lives = 1 + 2 * crashes.unwrap().writes;
    assert_eq!(resets.load(Ordering::SeqCst), lives);
    let wrong = simulation.handler("mail", new_keys);
    let error = wrong.crash_everywhere(NewTask::new("mail"), one_mail).await;
    let Err(CrashError::Check { point, .. }) = error else {
        panic!("{error:?}");
    };
    assert_eq!(point, CrashPoint::Before(1));
}

/// A run that asked for a missing value failed its attempt, so that a test of a failing task passed without its state.
#[tokio::test]
async fn a_missing_value_ends_the_simulation() {
    let simulation = Simulation::builder().handler("mail", one_key);
    let mut simulation = simulation.start().await.unwrap();
    let id = simulation.client().submit(NewTask::new("mail")).await;
    let error = simulation.run(&id.unwrap()).await.unwrap_err();
    let Error::MissingState { kind, missing } = &error else {
        panic!("{error:?}");
    };
    assert_eq!(kind.as_str(), "mail");
    assert!(missing.type_name().ends_with("Mails"), "{missing}");
}

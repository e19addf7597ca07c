//! Runs one handler in its own task, and catches its panics with their place.

use std::{
    any::Any,
    cell::RefCell,
    panic::{self, AssertUnwindSafe},
    sync::{Arc, Once},
};

use futures::{
    FutureExt,
    future::{AbortHandle, Abortable},
};
use tracing::Instrument;
use windlass_statemachine::Message;

use crate::handler::{StatefulHandler, TaskContext};

thread_local! {
    static LAST_PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Installs a panic hook that keeps the place of each panic, for the error log of the task. Calls
/// the earlier hook as well.
fn remember_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let place = info.location().map(ToString::to_string);
            LAST_PANIC.with(|last| *last.borrow_mut() = place);
            before(info);
        }));
    });
}

/// Returns the text of a panic.
pub(crate) fn panic_text(payload: &(dyn Any + Send)) -> String {
    payload
        .downcast_ref::<&str>()
        .map(|s| (*s).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a value that is not text".to_owned())
}

fn panic_message(payload: &(dyn Any + Send)) -> Message {
    let text = panic_text(payload);
    match LAST_PANIC.with(|last| last.borrow_mut().take()) {
        Some(place) => Message::error(format!("the handler panicked at {place}: {text}")),
        None => Message::error(format!("the handler panicked: {text}")),
    }
}

/// How a handler ended.
#[derive(Debug)]
pub(crate) enum Ended {
    Returned(Message),
    Aborted,
}

/// Starts the handler. `done` is called once, after everything of the handler is dropped.
pub(crate) fn spawn(
    handler: Arc<dyn StatefulHandler>,
    context: TaskContext,
    done: impl FnOnce(Ended) + Send + 'static,
) -> AbortHandle {
    remember_panics();
    let (abort, registration) = AbortHandle::new_pair();
    let span = context.span().clone();
    let returned_to = context.clone();
    tokio::spawn(
        async move {
            let run = async move {
                // A process that was stopped in between finds its lease over before its engine does.
                if context.lease_left().is_zero() {
                    return Message::release();
                }
                handler.run(context).await
            };
            let run = Abortable::new(AssertUnwindSafe(run).catch_unwind(), registration);
            // The future is dropped in the same statement, so the handler has ended when `done` is
            // called. The next line catches a destructor that panics.
            let ended = AssertUnwindSafe(run).catch_unwind().await;
            done(match ended {
                Ok(Ok(Ok(message))) => Ended::Returned(returned_to.checked_message(message)),
                Ok(Ok(Err(payload))) | Err(payload) => {
                    Ended::Returned(returned_to.checked_panic(panic_message(payload.as_ref())))
                }
                Ok(Err(_aborted)) => Ended::Aborted,
            });
        }
        .instrument(span),
    );
    abort
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicBool, Ordering},
        time::Duration,
    };

    use tokio::{
        sync::{oneshot, watch},
        time::Instant,
    };
    use windlass_statemachine::{ActionKind, Fence, Task, TaskState};

    use super::*;
    use crate::{
        async_trait,
        handler::{AskRunner, Attempt, RunData, Shared, Signals},
        store::Store,
    };

    struct Notes(Arc<AtomicBool>);

    #[async_trait]
    impl StatefulHandler for Notes {
        async fn run(&self, _: TaskContext) -> Message {
            self.0.store(true, Ordering::SeqCst);
            Message::complete()
        }
    }

    /// A process was stopped between a claim and the start of its handler, which then began after another node had the task.
    #[tokio::test(start_paused = true)]
    async fn a_handler_does_not_begin_after_the_lease() {
        for (left, returns) in [
            (Duration::ZERO, ActionKind::Release),
            (Duration::from_secs(1), ActionKind::Complete),
        ] {
            let (signals, delivered) = Signals::new();
            let attempt = Attempt {
                task: Arc::new(Task::new("a".parse().unwrap(), "k".parse().unwrap())),
                order: 1,
                number: 1,
                fence: Fence(1),
                data_version: 1,
                lease_until: watch::channel(Instant::now() + left).1,
                shared: Shared::default(),
                store: Store::in_memory(crate::clock::SystemClock::shared()).into(),
                span: tracing::Span::none(),
                clock: crate::clock::SystemClock::shared(),
                logged: 0,
            };
            let state = TaskState::new(jiff::Timestamp::UNIX_EPOCH);
            let asks = AskRunner(Box::new(|_| false));
            let data = RunData::new(attempt, &state, delivered, asks);
            let (done, ended) = oneshot::channel();
            let ran = Arc::new(AtomicBool::new(false));
            let context = TaskContext::new(Arc::new(data));
            spawn(Arc::new(Notes(ran.clone())), context, |ended| {
                let _ = done.send(ended);
            });
            let Ended::Returned(message) = ended.await.unwrap() else {
                unreachable!("nothing aborts it");
            };
            assert_eq!(message.kind(), returns);
            assert_eq!(ran.load(Ordering::SeqCst), returns == ActionKind::Complete);
            drop(signals);
        }
    }
}

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
    let judge = context.clone();
    tokio::spawn(
        async move {
            let run = async move { handler.run(context).await };
            let run = Abortable::new(AssertUnwindSafe(run).catch_unwind(), registration);
            // The future is dropped in the same statement, so the handler has ended when `done` is
            // called. The next line catches a destructor that panics.
            let ended = AssertUnwindSafe(run).catch_unwind().await;
            done(match ended {
                Ok(Ok(Ok(message))) => Ended::Returned(judge.judged(message)),
                Ok(Ok(Err(payload))) | Err(payload) => {
                    Ended::Returned(judge.judged_panic(panic_message(payload.as_ref())))
                }
                Ok(Err(_aborted)) => Ended::Aborted,
            });
        }
        .instrument(span),
    );
    abort
}

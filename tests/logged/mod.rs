//! What is logged on one thread, for tests that look at it.
//!
//! One subscriber serves all threads of the program. With a subscriber for each test, `tracing` may
//! decide on another thread, which has none, that nobody wants an event, and then no thread gets it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    cell::RefCell,
    io::{self, Write},
    sync::Once,
};

use tracing::level_filters::LevelFilter;
use tracing_subscriber::{Layer, filter::dynamic_filter_fn, layer::SubscriberExt};

thread_local! {
    static LINES: RefCell<Option<Vec<u8>>> = const { RefCell::new(None) };
}

static SUBSCRIBER: Once = Once::new();

/// What is logged on this thread from now on, up to level INFO, until it is dropped.
pub(crate) struct Logged(());

impl Logged {
    pub(crate) fn begin() -> Logged {
        SUBSCRIBER.call_once(|| {
            let lines = tracing_subscriber::fmt::layer()
                .with_ansi(false)
                .with_writer(|| Lines)
                .with_filter(dynamic_filter_fn(|metadata, _| {
                    *metadata.level() <= LevelFilter::INFO && LINES.with_borrow(Option::is_some)
                }));
            let subscriber = tracing_subscriber::registry().with(lines);
            tracing::subscriber::set_global_default(subscriber).unwrap();
        });
        // An event may have been registered while the subscriber was being set.
        tracing::callsite::rebuild_interest_cache();
        LINES.set(Some(Vec::new()));
        Logged(())
    }

    /// The lines that contain a text.
    pub(crate) fn lines_with(&self, text: &str) -> Vec<String> {
        let bytes = LINES.with_borrow(|lines| lines.clone().unwrap_or_default());
        let log = String::from_utf8(bytes).unwrap();
        let lines = log.lines().filter(|line| line.contains(text));
        lines.map(String::from).collect()
    }
}

impl Drop for Logged {
    fn drop(&mut self) {
        LINES.set(None);
    }
}

struct Lines;

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        LINES.with_borrow_mut(|lines| {
            if let Some(lines) = lines {
                lines.extend_from_slice(bytes);
            }
        });
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A thread without a log meets an event first: `tracing` must not decide then that nobody wants it.
#[test]
fn an_event_that_another_thread_has_met_first_is_in_the_log() {
    let logged = Logged::begin();
    let event = || tracing::warn!("met first elsewhere");
    std::thread::spawn(event).join().unwrap();
    assert!(logged.lines_with("met first elsewhere").is_empty());
    event();
    assert_eq!(logged.lines_with("met first elsewhere").len(), 1);
}

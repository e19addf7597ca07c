use tokio::sync::oneshot::{self, Receiver};

use windlass::{ActionKind, Wake};

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// A run of a command, whose processes ask one after the other.
struct Run(Awaited);

impl Run {
    /// Starts a run with these signals, after a run that has stored `waits`.
    fn after(waits: Option<SignalWaits>, signals: &[(&str, u32)]) -> Self {
        let mut awaited = Awaited::after(waits.unwrap_or_default(), None, 2_000);
        for (order, (name, payload)) in signals.iter().enumerate() {
            let signal = Signal::new(*name).with_payload(payload).unwrap();
            awaited.receive(signal.at(order as u64 + 1));
        }
        Self(awaited)
    }

    fn ask(&mut self, wait: WaitSignal, now: i64) -> (Step, Receiver<Answer>) {
        let (answer, answered) = oneshot::channel();
        let request = Request::WaitSignal(wait);
        (self.0.asked(Asked { request, answer }, at(now)), answered)
    }

    /// Asks, and returns the answer.
    fn answer(&mut self, wait: WaitSignal, now: i64) -> String {
        let (step, mut answered) = self.ask(wait, now);
        if let Step::Store = step {
            assert!(answered.try_recv().is_err(), "it is not stored yet");
            self.0.stores();
            self.0.stored(true);
        }
        serde_json::to_string(&answered.try_recv().unwrap()).unwrap()
    }

    /// Asks for what has not arrived. Returns when the wait ends, and the stored waits.
    fn parks(mut self, wait: WaitSignal, now: i64) -> (Option<Timestamp>, Option<SignalWaits>) {
        let (step, mut answered) = self.ask(wait, now);
        let Step::Park(parked) = step else {
            panic!("{step:?}");
        };
        let unanswered = oneshot::error::TryRecvError::Empty;
        assert_eq!(
            answered.try_recv(),
            Err(unanswered),
            "the process must not continue"
        );
        let until = parked.until;
        let sleeps = parked.message().kind() == ActionKind::Sleep;
        assert_eq!(sleeps, until.is_some());
        (until, reread(self.0.waits()))
    }
}

/// Stores and reads the waits, as the data of the task does.
fn reread(waits: Option<SignalWaits>) -> Option<SignalWaits> {
    serde_json::from_str(&serde_json::to_string(&waits).unwrap()).unwrap()
}

fn wait(name: &str, until: Option<i64>) -> WaitSignal {
    WaitSignal {
        signal: name.into(),
        until: until.map(|second| Wake::At(at(second))),
        reply: Json::null(),
    }
}

const EXPIRED: &str = r#"{"expired":true}"#;

#[test]
fn a_request_gets_the_signal_of_its_number() {
    let mut run = Run::after(None, &[("a", 1), ("b", 2), ("a", 3)]);
    assert_eq!(run.answer(wait("b", None), 0), r#"{"payload":2}"#);
    assert_eq!(run.answer(wait("a", None), 0), r#"{"payload":1}"#);
    assert_eq!(run.answer(wait("a", None), 0), r#"{"payload":3}"#);
    assert_eq!(run.0.waits(), None, "nothing is stored");
    let (until, _) = run.parks(wait("a", None), 0);
    assert_eq!(until, None);
}

#[test]
fn a_signal_without_a_payload_is_null() {
    let mut run = Run::after(None, &[]);
    run.0.receive(Signal::new("a").at(1));
    assert_eq!(run.answer(wait("a", None), 0), r#"{"payload":null}"#);
}

#[test]
fn a_wait_keeps_its_time_and_the_next_one_has_its_own() {
    let (until, waits) = Run::after(None, &[]).parks(wait("a", Some(100)), 0);
    assert_eq!(until, Some(at(100)));
    // Another signal has ended the wait: the command asks for the same, with `in 100s` once more.
    let (until, waits) = Run::after(waits, &[("b", 1)]).parks(wait("a", Some(150)), 50);
    assert_eq!(until, Some(at(100)));
    // The second request for the name is another wait.
    let mut run = Run::after(waits, &[("a", 1)]);
    assert_eq!(run.answer(wait("a", Some(160)), 60), r#"{"payload":1}"#);
    let (until, _) = run.parks(wait("a", Some(160)), 60);
    assert_eq!(until, Some(at(160)));
}

#[test]
fn the_time_of_a_rescheduled_wait_is_that_of_the_task() {
    let (_, waits) = Run::after(None, &[]).parks(wait("a", Some(100)), 0);
    let before: AwaitedSignal =
        serde_json::from_str(r#"{"name":"a","until":"1970-01-01T00:05:00Z","over":true}"#).unwrap();
    let run = Run(Awaited::after(waits.unwrap(), Some(before), 2_000));
    let (until, _) = run.parks(wait("a", Some(250)), 150);
    assert_eq!(until, Some(at(300)));
}

/// Regression: the time of a wait began again when another wait of the command was the first to ask.
#[test]
fn each_wait_keeps_its_own_time() {
    let (_, waits) = Run::after(None, &[]).parks(wait("a", Some(100)), 0);
    let (_, waits) = Run::after(waits, &[]).parks(wait("b", Some(110)), 10);
    let (until, waits) = Run::after(waits, &[]).parks(wait("a", Some(150)), 50);
    assert_eq!(until, Some(at(100)));
    let (until, _) = Run::after(waits, &[]).parks(wait("b", Some(160)), 60);
    assert_eq!(until, Some(at(110)));
}

/// A wait that has expired stays expired, whatever the later waits of the command are, and takes none of their signals.
#[test]
fn an_expired_request_stays_expired_in_every_later_run() {
    let (_, waits) = Run::after(None, &[]).parks(wait("a", Some(100)), 0);
    let mut run = Run::after(waits, &[]);
    assert_eq!(run.answer(wait("a", Some(200)), 100), EXPIRED);
    let (_, waits) = run.parks(wait("b", None), 100);
    let mut run = Run::after(waits, &[("b", 1)]);
    assert_eq!(run.answer(wait("a", Some(999)), 500), EXPIRED);
    assert_eq!(run.answer(wait("b", None), 500), r#"{"payload":1}"#);
    let (until, waits) = run.parks(wait("a", Some(600)), 500);
    assert_eq!(until, Some(at(600)), "the second request waits again");
    let mut run = Run::after(waits, &[("b", 1), ("a", 2)]);
    assert_eq!(run.answer(wait("a", Some(999)), 550), EXPIRED);
    assert_eq!(run.answer(wait("b", None), 550), r#"{"payload":1}"#);
    assert_eq!(run.answer(wait("a", Some(999)), 550), r#"{"payload":2}"#);
}

#[test]
fn a_signal_that_has_arrived_is_not_expired() {
    let (_, waits) = Run::after(None, &[]).parks(wait("a", Some(100)), 0);
    let mut run = Run::after(waits, &[("a", 1)]);
    assert_eq!(run.answer(wait("a", Some(999)), 500), r#"{"payload":1}"#);
}

#[test]
fn a_time_in_the_past_expires_without_a_wait() {
    let mut run = Run::after(None, &[]);
    assert_eq!(run.answer(wait("a", Some(1)), 2), EXPIRED);
}

#[test]
fn an_expiry_that_is_not_stored_is_no_answer() {
    let mut run = Run::after(None, &[]);
    let (step, mut answered) = run.ask(wait("a", Some(1)), 2);
    assert!(matches!(step, Step::Store));
    run.0.stores();
    run.0.stored(false);
    let answer = answered.try_recv().unwrap();
    assert!(matches!(answer, Answer::Refused(None, _)), "{answer:?}");
}

#[test]
fn the_record_of_expired_waits_has_a_limit() {
    let mut run = Run::after(None, &[]);
    for _ in 0..MOST_EXPIRED {
        assert_eq!(run.answer(wait("a", Some(1)), 2), EXPIRED);
    }
    let answer = run.answer(wait("b", Some(1)), 2);
    assert!(answer.contains("no more can be recorded"), "{answer}");
    let bytes = serde_json::to_string(&run.0.waits()).unwrap().len();
    assert!(bytes < 10_000, "{bytes}");
}

#[test]
fn a_reply_that_is_too_large_is_refused_and_takes_no_signal() {
    let mut run = Run::after(None, &[("a", 1)]);
    let mut large = wait("a", None);
    large.reply = Json::new("reply", &"x".repeat(1_000)).unwrap();
    let answer = run.answer(large, 0);
    assert!(answer.contains(r#""field":"reply""#), "{answer}");
    let mut fits = wait("a", None);
    fits.reply = Json::new("reply", &"thanks").unwrap();
    assert_eq!(run.answer(fits, 0), r#"{"payload":1}"#);
    let replies: Vec<_> = run
        .0
        .reply(Message::complete())
        .answers()
        .map(|(order, reply)| (order, reply.clone()))
        .collect();
    assert_eq!(replies, [(1, Json::new("reply", &"thanks").unwrap())]);
}

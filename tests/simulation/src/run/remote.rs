//! Servers with remote workers: the production `Workers` in the process of a server, and workers that reach it by lines with
//! faults: requests are late, lost, doubled, or their answers are.

mod claims;
mod ledger;
mod reports;
mod worker;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use fastrand::Rng;
use tokio::{
    sync::{Notify, mpsc, oneshot},
    time::{sleep, timeout},
};
use windlass::{
    NodeName,
    workers::{
        WorkerError, Workers,
        protocol::{Exchange, Exchanged, Leave, Register, Registered, ReportItems, Reported},
    },
};
use windlass_robustness::BoxError;

pub(super) use self::{ledger::Ledger, worker::work};
use super::{Phase, Shared, nodes};
use crate::{locked, process::WallClock};

/// The kind of the tasks of remote workers.
pub(super) const KIND: &str = "remote";
/// How many steps such a task has.
pub(super) const STEPS: u64 = 5;
/// How many tasks of the kind a run has.
pub(super) const TASKS: usize = 12;

/// A request of a worker.
#[derive(Clone)]
enum Request {
    Register(Register),
    Exchange(NodeName, Exchange),
    Report(NodeName, ReportItems),
    Leave(NodeName, Leave),
}

impl std::fmt::Display for Request {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Register(_) => f.write_str("to register"),
            Self::Exchange(_, form) => {
                let (seq, settled, held) = (form.seq, form.settled, &form.held);
                write!(f, "for an exchange {seq}, settled {settled}, held {held:?}")
            }
            Self::Report(_, form) => {
                let (seq, settled, items) = (form.seq, form.settled, &form.items);
                write!(f, "for a report {seq}, settled {settled}: {items:?}")
            }
            Self::Leave(..) => f.write_str("to leave"),
        }
    }
}

/// What a server answers.
#[derive(Debug)]
enum Answer {
    Registered(Registered),
    Exchanged(Exchanged),
    Reported(Reported),
    Left,
    Refused(WorkerError),
}

type Asked = (Request, oneshot::Sender<Answer>);

/// The servers for remote workers that live, each with the requests that it is sent. Clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct WorkerServers {
    inboxes: Arc<Mutex<BTreeMap<usize, mpsc::UnboundedSender<Asked>>>>,
    rng: Arc<Mutex<Option<Rng>>>,
}

impl WorkerServers {
    pub(super) fn new(seed: u64) -> Self {
        let servers = Self::default();
        *servers.rng() = Some(Rng::with_seed(seed ^ 0xde5c));
        servers
    }

    fn rng(&self) -> MutexGuard<'_, Option<Rng>> {
        locked(&self.rng)
    }

    fn draw(&self, most: u64) -> u64 {
        self.rng().as_mut().map_or(0, |rng| rng.u64(0..=most))
    }

    fn inboxes(&self) -> MutexGuard<'_, BTreeMap<usize, mpsc::UnboundedSender<Asked>>> {
        locked(&self.inboxes)
    }

    /// Notes that the process of a server is gone.
    pub(super) fn close(&self, number: usize) {
        self.inboxes().remove(&number);
    }

    /// Sends a request to a server; `None` when no answer has come in time.
    async fn ask(&self, request: Request, within: Duration, is_disturbed: bool) -> Option<Answer> {
        let chance = |share: u64| is_disturbed && self.draw(99) < share;
        let (is_lost, is_doubled) = (chance(6), chance(6));
        let (loses_answer, longest) = (chance(8), if chance(10) { 4_000 } else { 6 });
        let inbox = {
            let inboxes = self.inboxes();
            let count = u64::try_from(inboxes.len()).unwrap_or(0);
            let at = usize::try_from(self.draw(count.saturating_sub(1))).unwrap_or(0);
            inboxes.values().nth(at).cloned()
        };
        sleep(Duration::from_millis(self.draw(longest))).await;
        let (sender, answer) = oneshot::channel();
        if is_lost {
            sleep(within).await;
            return None;
        }
        let inbox = inbox?;
        if is_doubled {
            let (nobody, _) = oneshot::channel();
            let _ = inbox.send((request.clone(), nobody));
        }
        inbox.send((request, sender)).ok()?;
        let answer = timeout(within, answer).await.ok()?.ok()?;
        sleep(Duration::from_millis(self.draw(longest))).await;
        (!loses_answer).then_some(answer)
    }
}

/// What the process of a server does.
pub(super) async fn serve(
    shared: &Shared,
    number: usize,
    stop: &Notify,
    clock: Arc<WallClock>,
) -> Result<(), BoxError> {
    let store = nodes::open(shared, number, clock).await?;
    let workers = Workers::new(&store, Vec::new);
    let (inbox, mut asked) = mpsc::unbounded_channel::<Asked>();
    shared.worker_servers.inboxes().insert(number, inbox);
    loop {
        let request = tokio::select! {
            biased;
            () = stop.notified() => None,
            request = asked.recv() => request,
        };
        let Some((request, to)) = request else {
            shared.worker_servers.inboxes().remove(&number);
            workers.shutdown().await;
            return Ok(());
        };
        let workers = workers.clone();
        tokio::spawn(async move {
            // The worker may have given up.
            let _ = to.send(answer(&workers, request).await);
        });
    }
}

async fn answer(workers: &Workers, request: Request) -> Answer {
    let answered = match request {
        Request::Register(form) => workers.register(form).await.map(Answer::Registered),
        Request::Exchange(name, form) => {
            let exchanged = workers.exchange(&name, form).await;
            exchanged.map(Answer::Exchanged)
        }
        Request::Report(name, form) => workers.report(&name, form).await.map(Answer::Reported),
        Request::Leave(name, form) => workers.leave(&name, form).await.map(|()| Answer::Left),
    };
    answered.unwrap_or_else(Answer::Refused)
}

impl Shared {
    fn is_disturbed(&self) -> bool {
        self.is_in(Phase::Disturbed)
    }
}

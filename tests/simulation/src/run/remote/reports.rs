//! The handlers of a worker, and their reports.

use std::time::Duration;

use serde_json::json;
use tokio::{sync::oneshot, time::sleep};
use windlass::{
    Json,
    workers::{
        WorkerError,
        protocol::{Item, ReportItems, ResultCode, RunPhase, Start, What},
    },
};

use super::{
    Answer, Request, STEPS,
    claims::{Key, Out},
    worker::{PATIENCE, PAUSE, Worker, form},
};

impl Worker {
    /// The handler: checkpoints, further runs and sleeps.
    pub(super) async fn handle(&self, start: Start, key: Key, mut step: u64) {
        let returned = loop {
            if step >= STEPS {
                break json!({"message": "complete", "result": step});
            }
            sleep(Duration::from_millis(fastrand::u64(2..120))).await;
            let signals = {
                let mut state = self.lock();
                let claim = state.claims.get_mut(&key);
                let claim = claim.filter(|claim| claim.stop_at.is_none());
                claim.map(|claim| std::mem::take(&mut claim.signals))
            };
            let Some(signals) = signals else {
                break json!({"message": "release"});
            };
            for signal in signals {
                let reply = json!({"signal": signal, "reply": step});
                let Ok(reply) = serde_json::from_value(reply) else {
                    return;
                };
                self.report(&key, What::Answer(reply)).await;
            }
            step += 1;
            match step % 3 {
                0 => break json!({"message": "run", "data": step}),
                1 => break json!({"message": "sleep", "until": "in 20ms", "data": step}),
                _ => {}
            }
            let Ok(data) = Json::new("data", &step) else {
                return;
            };
            if !self.report(&key, What::Checkpoint(data)).await {
                break json!({"message": "release"});
            }
            self.0.ledger.acknowledged(&start, step);
        };
        self.0.ledger.ends(&start);
        if let Some(claim) = self.lock().claims.get_mut(&key) {
            claim.held.phase = RunPhase::Ended;
        }
        if let Ok(returned) = Json::new("return", &returned) {
            self.report(&key, What::Return(returned)).await;
        }
    }

    /// Reports, and waits for the answer: whether it is stored.
    async fn report(&self, key: &Key, what: What) -> bool {
        let (to, answer) = oneshot::channel();
        match self.lock().claims.get_mut(key) {
            Some(claim) => claim.out.push_back(Out {
                what,
                n: None,
                to: Some(to),
            }),
            None => return false,
        }
        self.0.reports.notify_one();
        answer.await.unwrap_or(false)
    }

    /// Sends reports until the lease is over.
    pub(super) async fn report_on(&self) {
        loop {
            let items: Vec<Item> = {
                let mut state = self.lock();
                let mut items = Vec::new();
                for claim in state.claims.values_mut() {
                    let Some(front) = claim.out.front_mut() else {
                        continue;
                    };
                    let number = *front.n.get_or_insert_with(|| {
                        claim.n += 1;
                        claim.n
                    });
                    items.push(Item::new(&claim.held, number, front.what.clone()));
                }
                items
            };
            if items.is_empty() {
                self.0.reports.notified().await;
                continue;
            }
            let (seq, settled, name) = self.next(false);
            let wanted = !self.lock().drain;
            let request = form::<ReportItems>(json!({
                "secret": self.0.secret, "seq": seq, "settled": settled, "items": items,
                "claims_wanted": wanted,
            }));
            let (Some(name), Ok(request)) = (name, request) else {
                return;
            };
            let answer = self.ask(Request::Report(name, request), PATIENCE).await;
            let mut again = true;
            match answer {
                Some(Answer::Reported(answer)) => {
                    again = false;
                    for result in &answer.results {
                        again |= result.result == ResultCode::Retry;
                        let key = (result.id.clone(), result.fence);
                        self.result(&key, result.n, result.result);
                    }
                    self.start_all(answer.claims);
                }
                Some(Answer::Refused(WorkerError::Over(_))) => return,
                _ => {}
            }
            self.lock().open.remove(&seq);
            if again {
                sleep(PAUSE).await;
            }
        }
    }

    fn result(&self, key: &Key, n: u64, result: ResultCode) {
        let mut state = self.lock();
        let Some(claim) = state.claims.get_mut(key) else {
            return;
        };
        let is_it = |front: &&Out| front.n == Some(n);
        let Some(front) = claim.out.front().filter(is_it) else {
            return;
        };
        let ends = matches!(front.what, What::Return(_) | What::Aborted);
        match result {
            ResultCode::Retry => return,
            ResultCode::Lost => {
                drop(state);
                return self.lose(key);
            }
            ResultCode::Refused if !ends => claim.n -= 1,
            _ => {}
        }
        if let Some(to) = claim.out.pop_front().and_then(|front| front.to) {
            let _ = to.send(result == ResultCode::Applied);
        }
        if ends {
            state.claims.remove(key);
        }
    }
}

//! Races: workers and servers whose requests are lost, delayed and doubled, from a seed.
//!
//! The checker knows every run that a worker has started and every report that was answered. It counts runs of one name
//! that go on at the same time, and acknowledged reports that the store does not have.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::{Value, json};
use windlass::{
    Client, Command, NewTask, StateKind,
    store::Store,
    workers::{
        WorkerError, Workers,
        protocol::{ResultCode, RunPhase},
    },
};

use super::support::{Worker, memory, server, within};

const TASKS: usize = 12;
const STEPS: usize = 260;

/// What happens to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It is answered.
    Answered,
    /// The server handles it, and the answer is lost.
    AnswerLost,
    /// It never reaches a server.
    Lost,
    /// It is handled, and the same bytes reach a server once more later.
    Doubled,
}

/// A worker with what its handlers have done.
struct Actor {
    worker: Worker,
    /// The checkpoints that were acknowledged, by task and fence: the greatest value.
    acknowledged: BTreeMap<(String, u64), u64>,
    ended: HashMap<String, StateKind>,
    /// The report of each run that no server has answered.
    open: BTreeMap<String, (Value, bool, u64)>,
}

struct World {
    store: Store,
    client: Client,
    servers: Vec<Workers>,
    random: fastrand::Rng,
    actors: Vec<Actor>,
    next_value: u64,
}

impl World {
    async fn new(seed: u64) -> Self {
        let (store, client) = memory().await;
        let servers = vec![server(&store), server(&store)];
        let mut actors = Vec::new();
        for n in 0..2 {
            let mut worker = Worker::new(&format!("w{n}"));
            worker.register(&servers[0], 4).await;
            actors.push(Actor {
                worker,
                acknowledged: BTreeMap::new(),
                ended: HashMap::new(),
                open: BTreeMap::new(),
            });
        }
        for n in 0..TASKS {
            client
                .submit(NewTask::new("k").id(format!("t{n}")))
                .await
                .unwrap();
        }
        Self {
            store,
            client,
            servers,
            random: fastrand::Rng::with_seed(seed),
            actors,
            next_value: 0,
        }
    }

    fn fate(&mut self) -> Fate {
        match self.random.u32(0..10) {
            0 | 1 => Fate::AnswerLost,
            2 => Fate::Lost,
            3 => Fate::Doubled,
            _ => Fate::Answered,
        }
    }

    async fn step(&mut self) {
        let actor = self.random.usize(..self.actors.len());
        let server = self.random.usize(..self.servers.len());
        match self.random.u32(0..12) {
            0..=3 => self.exchange(actor, server).await,
            4..=8 => self.report(actor, server).await,
            9 => self.command().await,
            10 => {
                // A server is killed, and another is in its place.
                self.servers[server].shutdown().await;
                self.servers[server] = super::support::server(&self.store);
            }
            _ => tokio::task::yield_now().await,
        }
    }

    async fn exchange(&mut self, actor: usize, server: usize) {
        let fate = self.fate();
        let worker = &mut self.actors[actor].worker;
        if fate == Fate::Lost {
            worker.seq += 1;
            worker.settled = worker.seq;
            return;
        }
        let before = worker.seq;
        let answer = worker.send_exchange(&self.servers[server], 0).await;
        if fate == Fate::Doubled {
            // The same bytes again, at the other server, whose answer nobody receives.
            let after = worker.seq;
            worker.seq = before;
            let other = (server + 1) % self.servers.len();
            let again = worker.send_exchange(&self.servers[other], 0).await;
            worker.seq = after;
            assert!(
                matches!(again, Ok(_) | Err(WorkerError::Stale { .. })),
                "{again:?}"
            );
        }
        worker.settled = worker.seq;
        match answer {
            Ok(_) if fate == Fate::AnswerLost => {}
            Ok(answer) => {
                let actor = &mut self.actors[actor];
                for lost in &answer.lost {
                    let runs = &mut actor.worker.runs;
                    runs.retain(|id, run| id != lost.id.as_str() || run.held.fence != lost.fence);
                    actor.open.retain(|id, _| runs.contains_key(id));
                }
                for stop in &answer.stop {
                    if let Some(run) = actor.worker.runs.get_mut(stop.id.as_str())
                        && run.held.run == stop.run
                    {
                        run.held.phase = RunPhase::Stopping;
                    }
                }
                // A run begins when the one before has ended.
                let mut free = Vec::new();
                for start in answer.claims {
                    match actor.worker.runs.get(start.id.as_str()) {
                        None => free.push(start),
                        Some(run) => {
                            let is_same =
                                (run.held.fence, run.held.run) == (start.fence, start.run);
                            let has_ended = run.held.phase == RunPhase::Ended;
                            assert!(is_same || has_ended, "{start:?} beside {run:?}");
                        }
                    }
                }
                actor.worker.take(&free);
                self.no_run_twice();
            }
            Err(WorkerError::Stale { .. }) => {}
            Err(error) => panic!("an exchange: {error:?}"),
        }
    }

    /// Sends a report of a run: one that is open, or a new one.
    async fn report(&mut self, actor: usize, server: usize) {
        let fate = self.fate();
        let ids: Vec<String> = self.actors[actor].worker.runs.keys().cloned().collect();
        if ids.is_empty() {
            return;
        }
        let id = ids[self.random.usize(..ids.len())].clone();
        self.next_value += 1;
        let value = self.next_value;
        let what = match self.random.u32(0..6) {
            0..=2 => (json!({"checkpoint": value}), false, value),
            3 => (
                json!({"return": {"message": "run", "data": value}}),
                true,
                value,
            ),
            4 => (
                json!({"return": {"message": "sleep", "until": "in 1ms", "data": value}}),
                true,
                value,
            ),
            _ => (
                json!({"return": {"message": "complete", "data": value}}),
                true,
                value,
            ),
        };
        let actor = &mut self.actors[actor];
        let (item, is_end, value) = match actor.open.get(&id) {
            Some(open) => open.clone(),
            None => {
                let item = (actor.worker.item(&id, what.0), what.1, what.2);
                actor.open.insert(id.clone(), item.clone());
                item
            }
        };
        if is_end {
            actor.worker.phase(&id, RunPhase::Ended);
        }
        if fate == Fate::Lost {
            actor.worker.seq += 1;
            actor.worker.settled = actor.worker.seq;
            return;
        }
        let answer = actor
            .worker
            .send_report(&self.servers[server], vec![item.clone()], false)
            .await;
        if fate == Fate::Doubled {
            let other = (server + 1) % self.servers.len();
            let _ = actor
                .worker
                .send_report(&self.servers[other], vec![item], false)
                .await;
        }
        actor.worker.settled = actor.worker.seq;
        let answer = match answer {
            Ok(answer) if fate != Fate::AnswerLost => answer,
            Ok(_) | Err(WorkerError::Stale { .. }) => return,
            Err(error) => panic!("a report: {error:?}"),
        };
        let result = &answer.results[0];
        match result.result {
            ResultCode::Applied => {
                let run = actor.worker.runs.get_mut(&id).unwrap();
                run.n += 1;
                actor.open.remove(&id);
                actor
                    .acknowledged
                    .insert((id.clone(), result.fence.0), value);
                if is_end {
                    actor.worker.runs.remove(&id);
                    actor
                        .ended
                        .extend(result.state.map(|state| (id.clone(), state)));
                }
            }
            ResultCode::Lost => {
                actor.worker.runs.remove(&id);
                actor.open.remove(&id);
            }
            ResultCode::Retry => {}
            _ => panic!("refused: {answer:?}"),
        }
        actor.worker.take(&answer.claims);
        self.no_run_twice();
    }

    async fn command(&mut self) {
        let id = format!("t{}", self.random.usize(..TASKS));
        let command = if self.random.bool() {
            Command::Pause
        } else {
            Command::Run
        };
        let _ = self.client.command(id.as_str(), command).await;
    }

    /// A name of a run is started once, by one worker.
    fn no_run_twice(&self) {
        let mut names = HashSet::new();
        for actor in &self.actors {
            for name in &actor.worker.started {
                assert!(names.insert(name.clone()), "{name:?} was started twice");
            }
        }
    }

    /// What was acknowledged is stored, or was followed by what was acknowledged later.
    async fn check(&self) {
        let mut last: BTreeMap<&str, u64> = BTreeMap::new();
        for actor in &self.actors {
            for ((id, _), value) in &actor.acknowledged {
                let known = last.entry(id).or_default();
                *known = (*known).max(*value);
            }
        }
        for (id, value) in last {
            let state = self.client.get(id).await.unwrap().state.unwrap();
            let data: u64 = state.data.map_or(0, |data| data.get("data").unwrap());
            assert!(
                data >= value,
                "{id}: {value} was acknowledged, and {data} is stored"
            );
            assert_eq!(state.attempts, 0, "{id}: an attempt was counted");
        }
    }
}

async fn race(seed: u64) {
    let mut world = World::new(seed).await;
    for _ in 0..STEPS {
        world.step().await;
    }
    world.check().await;
    for server in &world.servers {
        server.shutdown().await;
    }
}

#[tokio::test]
async fn requests_are_lost_doubled_and_sent_to_other_servers() {
    for seed in 0..30 {
        within(&format!("the race of seed {seed}"), race(seed)).await;
    }
}

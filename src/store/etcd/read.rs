//! Reading: all that belongs to a task at one revision, of many tasks at once.

use etcd_client::{GetOptions, KeyValue, Txn, TxnOp, TxnOpResponse};
use futures::{StreamExt, stream};
use windlass_statemachine::{Json, State, Status, Task, TaskId};

use super::{
    Inner,
    capacity::Limit,
    errors::Fault,
    fences::Fences,
    keys::{Part, end_of},
    parts::is_pointer,
    queued::Stored,
    records::{self, Envelope, Hold, Parked},
};
use crate::store::{Error, TaskRecord};

/// What is read of each task in one transaction, for a claim and otherwise.
const FOR_CLAIM: usize = 4;
const OPERATIONS: usize = 5;
/// How many such transactions are under way at once.
const AT_ONCE: usize = 4;

/// All that belongs to a task.
#[derive(Debug, Default, Clone)]
pub(super) struct Bundle {
    pub(super) fences: Fences,
    pub(super) revision: i64,
    pub(super) task: Option<KeyValue>,
    pub(super) finished: Option<KeyValue>,
    pub(super) state: Option<KeyValue>,
    pub(super) parked: Option<KeyValue>,
    pub(super) owner: Option<KeyValue>,
    pub(super) props: Option<KeyValue>,
    /// The commands that wait, in order, malformed ones too.
    pub(super) queue: Vec<Stored>,
    /// Keys behind that of the task that are no parts of it, in order.
    pub(super) others: Vec<Vec<u8>>,
}

pub(super) fn revision(kv: Option<&KeyValue>) -> i64 {
    kv.map_or(0, KeyValue::mod_revision)
}

/// The keys of an answer to a get.
pub(super) fn kvs(response: TxnOpResponse) -> Vec<KeyValue> {
    match response {
        TxnOpResponse::Get(mut got) => got.take_kvs(),
        _ => Vec::new(),
    }
}

pub(super) fn kv(response: Option<TxnOpResponse>) -> Option<KeyValue> {
    response.map(kvs)?.pop()
}

impl Bundle {
    /// Takes in one key below `/NS/tasks/`.
    pub(super) fn take(&mut self, part: &Part<'_>, kv: KeyValue) {
        match part {
            Part::Task => self.task = Some(kv),
            Part::Owner => self.owner = Some(kv),
            Part::Props => self.props = Some(kv),
            Part::Slot => self.queue.push(Stored::read(None, &kv)),
            Part::Command(name) => self.queue.push(Stored::read(Some(name), &kv)),
        }
    }

    pub(super) fn exists(&self) -> bool {
        self.task.is_some() || self.finished.is_some()
    }

    /// The key that holds the envelope, and what it says.
    pub(super) fn envelope(&self) -> Result<(Envelope, u64), String> {
        let kv = self.task.as_ref().or(self.finished.as_ref());
        let kv = kv.ok_or("is gone")?;
        let envelope = Envelope::read(kv).map_err(|e| format!("its envelope: {e}"))?;
        let order = envelope.order(kv);
        Ok((envelope, order))
    }

    /// What takes the place of an envelope that cannot be read, and its order.
    pub(super) fn replaced_envelope(
        &self,
        id: &TaskId,
        reason: String,
    ) -> Result<(Envelope, u64), Error> {
        let kv = self.task.as_ref().or(self.finished.as_ref());
        let envelope = Envelope::foreign().map_err(|_| Error::corrupt_task(id, reason))?;
        let order = kv.map_or(0, |kv| envelope.order(kv));
        Ok((envelope, order))
    }

    /// Whether a live task has props that are no JSON.
    pub(super) fn has_unreadable_props(&self) -> bool {
        let props = self.props.as_ref().filter(|_| self.task.is_some());
        let is_json = |kv| {
            let text = records::text_of(kv);
            text.is_ok_and(|text| Json::parse("props", text).is_ok())
        };
        props.is_some_and(|kv| !is_json(kv))
    }

    pub(super) fn whole_task(&self, id: &TaskId) -> Result<Task, String> {
        let (mut envelope, _) = self.envelope()?;
        let props = match (&self.props, envelope.props.take()) {
            (Some(kv), _) if self.task.is_some() => {
                let text = records::text_of(kv).map_err(|e| format!("its props: {e}"))?;
                Json::parse("props", text).map_err(|e| e.to_string())?
            }
            (_, Some(props)) => props,
            _ => Json::null(),
        };
        Ok(envelope.task(id, props))
    }

    /// The state with what is stored beside it. A task that was never claimed has none stored.
    pub(super) fn state(&self) -> Result<(State, Hold), String> {
        match &self.state {
            Some(kv) => records::read_state(kv, &self.fences),
            None => Ok((self.envelope()?.0.first_state(), Hold::default())),
        }
    }

    /// Why it is set aside, if it is.
    pub(super) fn aside(&self) -> Option<String> {
        let parked: Parked = records::parse(self.parked.as_ref()?).ok()?;
        parked.aside
    }

    /// What is wrong with it, if something is.
    pub(super) fn fault(&self, id: &TaskId) -> Option<String> {
        self.whole_task(id).err().or_else(|| self.state().err())
    }

    pub(super) fn record(&self, id: &TaskId) -> Result<TaskRecord, Error> {
        let (envelope, order) = match self.envelope() {
            Ok(read) => read,
            Err(reason) => self.replaced_envelope(id, reason)?,
        };
        let aside = self.aside().or_else(|| self.fault(id));
        let stored = self.state();
        let fence = stored.as_ref().map(|(state, _)| state.fence);
        let owner = self.owner.as_ref();
        let by_owner = owner.map(|kv| self.fences.of(kv.mod_revision()));
        Ok(TaskRecord {
            task: self
                .whole_task(id)
                .unwrap_or_else(|_| envelope.task(id, Json::null())),
            order,
            submitted_at: envelope.submitted_at(),
            node: owner
                .and_then(|kv| records::parse::<records::Owner>(kv).ok())
                .map(|owner| owner.node),
            fence: by_owner.or(fence.ok()).unwrap_or_default(),
            commands: self.queue.len() as u64,
            state: match (aside, stored) {
                (Some(reason), _) | (None, Err(reason)) => Err(Error::corrupt_task(id, reason)),
                (None, Ok((state, _))) => Ok(state),
            },
        })
    }
}

/// The marker of a task that belongs to nobody, if it has to wait in this state.
pub(super) fn parked_for(state: &State) -> Option<Parked> {
    let until = match state.status {
        Status::Sleeping { until } => Some(until),
        Status::Paused => None,
        _ => return None,
    };
    Some(Parked { until, aside: None })
}

impl Inner {
    /// Reads tasks.
    pub(super) async fn read_many(&self, ids: &[TaskId]) -> Vec<Result<Bundle, Fault>> {
        let read = self.read_chunks(ids, None).await.into_iter();
        read.map(|read| read.map(|(bundle, _)| bundle)).collect()
    }

    /// Reads tasks that are to be claimed (what has ended is as good as gone), and the lease that
    /// the key `node` hangs on at the revision of each.
    pub(super) async fn read_for_claim(
        &self,
        ids: &[TaskId],
        node: &str,
    ) -> Vec<Result<(Bundle, Option<i64>), Fault>> {
        self.read_chunks(ids, Some(node)).await
    }

    async fn read_chunks(
        &self,
        ids: &[TaskId],
        node: Option<&str>,
    ) -> Vec<Result<(Bundle, Option<i64>), Fault>> {
        let each = node.map_or(OPERATIONS, |_| FOR_CLAIM);
        loop {
            let operations = self.capacity.operations();
            let size = (operations.saturating_sub(1) / each).clamp(1, 31);
            let chunks: Vec<_> = ids
                .chunks(size)
                .map(|ids| self.read_chunk(ids, node))
                .collect();
            let chunks: Vec<Vec<_>> = stream::iter(chunks).buffered(AT_ONCE).collect().await;
            let refused = chunks.iter().flatten().any(|read| {
                let limit = Limit::Operations;
                matches!(read, Err(Fault::OverLimit(of, _)) if *of == limit)
            });
            if !refused || size == 1 {
                return chunks.into_iter().flatten().collect();
            }
            self.capacity.learn(Limit::Operations, size * each + 1);
        }
    }

    async fn read_chunk(
        &self,
        ids: &[TaskId],
        node: Option<&str>,
    ) -> Vec<Result<(Bundle, Option<i64>), Fault>> {
        let keys = &self.keys;
        let mut operations = Vec::with_capacity(ids.len() * OPERATIONS + 1);
        for id in ids {
            let parts = keys.parts(id);
            let range = GetOptions::new().with_range(end_of(&parts));
            operations.extend([
                TxnOp::get(keys.task(id), None),
                TxnOp::get(parts, Some(range)),
                TxnOp::get(keys.state(id), None),
                TxnOp::get(keys.parked(id), None),
            ]);
            if node.is_none() {
                operations.push(TxnOp::get(keys.finished(id), None));
            }
        }
        operations.extend(node.map(|key| TxnOp::get(key, None)));
        let answer = match self.link.txn(Txn::new().and_then(operations)).await {
            Ok(answer) => answer,
            Err(fault) => return ids.iter().map(|_| Err(fault.clone())).collect(),
        };
        let revision = answer.header().map_or(0, |header| header.revision());
        let mut responses = answer.op_responses().into_iter();
        let mut bundles = Vec::with_capacity(ids.len());
        for _ in ids {
            let mut bundle = Bundle {
                fences: self.fences.clone(),
                revision,
                task: kv(responses.next()),
                ..Bundle::default()
            };
            for kv in responses.next().map(kvs).unwrap_or_default() {
                let key = kv.key().to_vec();
                match keys.split(&key) {
                    Some((_, Part::Command(_))) if is_pointer(kv.value()) => {
                        bundle.others.push(key);
                    }
                    Some((_, part)) => bundle.take(&part, kv),
                    None => bundle.others.push(key),
                }
            }
            bundle.queue.sort_by_key(|stored| stored.order);
            bundle.state = kv(responses.next());
            bundle.parked = kv(responses.next());
            if node.is_none() {
                bundle.finished = kv(responses.next());
            }
            bundles.push(bundle);
        }
        let lease = kv(responses.next()).map(|kv| kv.lease());
        let bundles = bundles.into_iter();
        bundles.map(|bundle| Ok((bundle, lease))).collect()
    }

    pub(super) async fn read(&self, id: &TaskId) -> Result<Bundle, Fault> {
        let mut read = self.read_many(std::slice::from_ref(id)).await;
        let nothing = || Err(Fault::NotNow("nothing was read".into()));
        read.pop().unwrap_or_else(nothing)
    }

    pub(super) async fn get_key(&self, key: &str) -> Result<Option<KeyValue>, Fault> {
        let mut client = self.link.kv();
        let mut got = self.link.call(client.get(key, None)).await?;
        Ok(got.take_kvs().pop())
    }

    /// The keys that begin with `prefix`: for few, as those of one task or of the nodes.
    pub(super) async fn get_all(&self, prefix: &str) -> Result<(Vec<KeyValue>, i64), Fault> {
        let mut client = self.link.kv();
        let options = GetOptions::new().with_range(end_of(prefix));
        let mut got = self.link.call(client.get(prefix, Some(options))).await?;
        let revision = got.header().map_or(0, |header| header.revision());
        Ok((got.take_kvs(), revision))
    }
}

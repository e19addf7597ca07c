//! Random requests, in the forms of the client and of the model.

use std::ops::RangeInclusive;

use etcd_client::{
    Compare, CompareOp, DeleteOptions, GetOptions, PutOptions, Txn, TxnOp,
    proto::{
        PbCompare, PbCompareTarget, PbDeleteRequest, PbPutRequest, PbRangeRequest, PbTargetUnion,
        PbTxnOpRequest, PbTxnRequest, PbTxnRequestOp,
    },
};
use fastrand::Rng;

/// All keys begin with this.
pub(crate) const PREFIX: &str = "k/";
/// The end of the range of all keys.
pub(crate) const END: &str = "k0";
/// The ids of leases. There are more than are granted at a time.
const LEASES: RangeInclusive<i64> = 1..=4;
/// The number of keys.
const KEYS: u8 = 16;
/// How deep transactions are nested.
const DEPTH: u32 = 2;

/// A random request.
#[derive(Debug)]
pub(crate) struct Request(pub(crate) Kind);

#[derive(Debug)]
pub(crate) enum Kind {
    Get(Get),
    /// Writes a key with a value and a lease; 0 for none.
    Put(String, String, i64),
    Txn(TxnOf),
    /// Compacts so many revisions before the last one; after it, if negative.
    Compact(i64),
    Grant(i64),
    Revoke(i64),
    Lease(i64),
}

/// A key, or the keys from it to an end.
#[derive(Debug, Clone)]
pub(crate) struct Get {
    pub(crate) key: String,
    end: Option<String>,
    revision: i64,
    limit: i64,
    keys_only: bool,
    count_only: bool,
}

impl Get {
    pub(crate) fn options(&self) -> GetOptions {
        let mut options = GetOptions::new()
            .with_revision(self.revision)
            .with_limit(self.limit);
        if let Some(end) = &self.end {
            options = options.with_range(end.as_str());
        }
        if self.keys_only {
            options = options.with_keys_only();
        }
        if self.count_only {
            options = options.with_count_only();
        }
        options
    }

    pub(crate) fn pb(&self) -> PbRangeRequest {
        PbRangeRequest {
            key: self.key.clone().into(),
            range_end: self.end.clone().unwrap_or_default().into(),
            revision: self.revision,
            limit: self.limit,
            keys_only: self.keys_only,
            count_only: self.count_only,
            ..Default::default()
        }
    }
}

#[derive(Debug)]
enum Operation {
    Get(Get),
    Put(String, String, i64),
    Delete(String, Option<String>),
    Txn(TxnOf),
}

/// What a comparison looks at.
#[derive(Debug, Clone)]
enum Target {
    Version(i64),
    Create(i64),
    Mod(i64),
    Value(String),
    Lease(i64),
}

#[derive(Debug)]
struct Condition {
    key: String,
    end: Option<String>,
    operator: CompareOp,
    target: Target,
}

/// A transaction.
#[derive(Debug)]
pub(crate) struct TxnOf {
    conditions: Vec<Condition>,
    then: Vec<Operation>,
    otherwise: Vec<Operation>,
}

impl TxnOf {
    pub(crate) fn client(&self) -> Txn {
        let each = |list: &[Operation]| list.iter().map(Operation::client).collect::<Vec<_>>();
        let conditions: Vec<Compare> = self.conditions.iter().map(Condition::client).collect();
        Txn::new()
            .when(conditions)
            .and_then(each(&self.then))
            .or_else(each(&self.otherwise))
    }

    pub(crate) fn pb(&self) -> PbTxnRequest {
        let each = |list: &[Operation]| list.iter().map(Operation::pb).collect();
        PbTxnRequest {
            compare: self.conditions.iter().map(Condition::pb).collect(),
            success: each(&self.then),
            failure: each(&self.otherwise),
        }
    }
}

impl Condition {
    fn client(&self) -> Compare {
        let (key, operator) = (self.key.as_str(), self.operator);
        let compare = match &self.target {
            Target::Version(version) => Compare::version(key, operator, *version),
            Target::Create(revision) => Compare::create_revision(key, operator, *revision),
            Target::Mod(revision) => Compare::mod_revision(key, operator, *revision),
            Target::Value(value) => Compare::value(key, operator, value.as_str()),
            Target::Lease(lease) => Compare::lease(key, operator, *lease),
        };
        match &self.end {
            Some(end) => compare.with_range(end.as_str()),
            None => compare,
        }
    }

    fn pb(&self) -> PbCompare {
        let (target, union) = match self.target.clone() {
            Target::Version(one) => (PbCompareTarget::Version, PbTargetUnion::Version(one)),
            Target::Create(one) => (PbCompareTarget::Create, PbTargetUnion::CreateRevision(one)),
            Target::Mod(one) => (PbCompareTarget::Mod, PbTargetUnion::ModRevision(one)),
            Target::Value(one) => (PbCompareTarget::Value, PbTargetUnion::Value(one.into())),
            Target::Lease(one) => (PbCompareTarget::Lease, PbTargetUnion::Lease(one)),
        };
        PbCompare {
            result: match self.operator {
                CompareOp::Equal => 0,
                CompareOp::Greater => 1,
                CompareOp::Less => 2,
                CompareOp::NotEqual => 3,
            },
            target: target.into(),
            key: self.key.clone().into(),
            range_end: self.end.clone().unwrap_or_default().into(),
            target_union: Some(union),
        }
    }
}

impl Operation {
    fn client(&self) -> TxnOp {
        match self {
            Self::Get(get) => TxnOp::get(get.key.as_str(), Some(get.options())),
            Self::Put(key, value, lease) => {
                let options = PutOptions::new().with_lease(*lease);
                TxnOp::put(key.as_str(), value.as_str(), Some(options))
            }
            Self::Delete(key, end) => {
                let options = end.as_ref();
                let options = options.map(|end| DeleteOptions::new().with_range(end.as_str()));
                TxnOp::delete(key.as_str(), options)
            }
            Self::Txn(txn) => TxnOp::txn(txn.client()),
        }
    }

    fn pb(&self) -> PbTxnRequestOp {
        let request = match self {
            Self::Get(get) => PbTxnOpRequest::RequestRange(get.pb()),
            Self::Put(key, value, lease) => PbTxnOpRequest::RequestPut(PbPutRequest {
                key: key.clone().into(),
                value: value.clone().into(),
                lease: *lease,
                ..Default::default()
            }),
            Self::Delete(key, end) => PbTxnOpRequest::RequestDeleteRange(PbDeleteRequest {
                key: key.clone().into(),
                range_end: end.clone().unwrap_or_default().into(),
                prev_kv: false,
            }),
            Self::Txn(txn) => PbTxnOpRequest::RequestTxn(txn.pb()),
        };
        PbTxnRequestOp {
            request: Some(request),
        }
    }
}

/// Draws requests.
pub(crate) struct Random(Rng);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Rng::with_seed(seed))
    }

    /// Draws a request to a server of this revision.
    pub(crate) fn request(&mut self, revision: i64) -> Request {
        Request(match self.0.u32(0..100) {
            0..20 => Kind::Get(self.get(revision)),
            20..21 => Kind::Compact(self.0.i64(-2..200)),
            21..25 => Kind::Grant(self.0.i64(LEASES)),
            25..26 => Kind::Revoke(self.0.i64(LEASES)),
            26..29 => Kind::Lease(self.0.i64(LEASES)),
            29..33 => {
                let (key, value, lease) = self.put();
                Kind::Put(key, value, lease)
            }
            _ => Kind::Txn(self.txn(revision, DEPTH)),
        })
    }

    /// Draws revisions from which a watch begins: some of them compacted, none the last compacted one, of which etcd may have
    /// lost a deletion (3.4.30 and 3.5.12 do).
    pub(crate) fn revisions(&mut self, last: i64, compacted: i64) -> [i64; 2] {
        let back = [self.0.i64(0..5), self.0.i64(100..200)];
        back.map(|back| match (last - back).max(1) {
            from if from == compacted => from + 1,
            from => from,
        })
    }

    fn key(&mut self) -> String {
        format!("{PREFIX}{:x}", self.0.u8(0..KEYS))
    }

    fn range(&mut self) -> (String, Option<String>) {
        let end = match self.0.u32(0..4) {
            0 => Some(END.to_owned()),
            1 => Some(self.key()),
            _ => None,
        };
        (self.key(), end)
    }

    fn get(&mut self, revision: i64) -> Get {
        let (key, end) = self.range();
        Get {
            key,
            end,
            revision: match self.0.u32(0..16) {
                0 => (revision - self.0.i64(-2..50)).max(0),
                _ => 0,
            },
            limit: self.0.i64(0..4),
            keys_only: self.0.u32(0..5) == 0,
            count_only: self.0.u32(0..8) == 0,
        }
    }

    /// Draws a key, its value and its lease; 0 for none.
    fn put(&mut self) -> (String, String, i64) {
        let lease = match self.0.u32(0..6) {
            0 => self.0.i64(LEASES),
            _ => 0,
        };
        (self.key(), self.0.u8(0..4).to_string(), lease)
    }

    fn operation(&mut self, revision: i64, depth: u32) -> Operation {
        match self.0.u32(0..10) {
            0..5 => {
                let (key, value, lease) = self.put();
                Operation::Put(key, value, lease)
            }
            5..7 => {
                let (key, end) = self.range();
                Operation::Delete(key, end.filter(|_| self.0.u32(0..3) == 0))
            }
            7..9 if depth > 0 => Operation::Txn(self.txn(revision, depth - 1)),
            _ => Operation::Get(self.get(revision)),
        }
    }

    fn txn(&mut self, revision: i64, depth: u32) -> TxnOf {
        let operations = |of: &mut Self, most| -> Vec<Operation> {
            let count = of.0.usize(0..=most);
            (0..count).map(|_| of.operation(revision, depth)).collect()
        };
        TxnOf {
            conditions: (0..self.0.usize(0..3))
                .map(|_| self.condition(revision))
                .collect(),
            then: operations(self, 2),
            otherwise: operations(self, 2),
        }
    }

    fn condition(&mut self, revision: i64) -> Condition {
        let (key, end) = self.range();
        let operators = [
            CompareOp::Equal,
            CompareOp::Greater,
            CompareOp::Less,
            CompareOp::NotEqual,
        ];
        let near = |of: &mut Self| (revision - of.0.i64(0..20)).max(0);
        let target = match self.0.u32(0..5) {
            0 => Target::Version(self.0.i64(0..3)),
            1 => Target::Create(near(self)),
            2 => Target::Mod(near(self)),
            3 => Target::Value(self.0.u8(0..4).to_string()),
            _ => Target::Lease(self.0.i64(0..3)),
        };
        Condition {
            key,
            end,
            operator: operators[self.0.usize(0..operators.len())],
            target,
        }
    }
}

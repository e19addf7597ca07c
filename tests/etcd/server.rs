//! Servers for the tests: one member each, on free ports of the loopback.

use windlass_etcd_cluster::{Cluster, cluster::Setup};

/// An etcd of one member. It is killed, and its data are gone, when it is dropped.
pub(crate) struct Server(Cluster);

impl Server {
    /// Starts one and waits until it answers.
    pub(crate) fn start() -> Self {
        Self::start_with("http", &[])
    }

    /// One of three members, of which the others are dead.
    pub(crate) fn start_alone_of_three() -> Self {
        let mut cluster = Cluster::start(Setup::of(3)).unwrap();
        cluster.kill(1);
        cluster.kill(2);
        Self(cluster)
    }

    /// As [`start`](Self::start), with arguments of one's own; `scheme` is that of the clients.
    pub(crate) fn start_with(scheme: &'static str, arguments: &[String]) -> Self {
        let setup = Setup {
            scheme,
            arguments: arguments.to_vec(),
            ..Setup::of(1)
        };
        Self(Cluster::start(setup).unwrap())
    }

    pub(crate) fn endpoint(&self) -> String {
        self.0.endpoint(0)
    }

    /// The URL of a namespace, with this member alone.
    pub(crate) fn url(&self, namespace: &str) -> String {
        self.0.url_of(&[self.endpoint()], namespace)
    }

    /// Stops the process without ending it.
    pub(crate) fn pause(&self) {
        self.0.pause(0).unwrap();
    }

    pub(crate) fn resume(&self) {
        self.0.resume(0).unwrap();
    }

    /// Returns how the process has ended by itself, with the end of its log; `None` while it runs.
    pub(crate) fn ended(&mut self) -> Option<String> {
        self.0.ended(0).unwrap()
    }

    /// Kills the process; the data stay.
    pub(crate) fn kill(&mut self) {
        self.0.kill(0);
    }

    /// Starts it again on the same data.
    pub(crate) fn restart(&mut self) {
        self.0.restart(0).unwrap();
    }
}

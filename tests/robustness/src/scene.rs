//! [`Scene`]: the folder, the store and the workers of one run.

use std::{fs, sync::Arc, time::Duration};

use tokio::time::{Instant, sleep};
use windlass::Client;

use crate::{
    BoxError,
    cluster::{Etcd, NAMESPACE},
    feed::Feed,
    ground, invariants,
    site::{Programs, Site},
    terms::Terms,
    time,
    traffic::Traffic,
    witness::{Journal, Said},
    workers::{Role, SHUTDOWN, Worker},
    world::World,
};

/// What the tasks of a run are kept in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ground {
    /// One SQLite file.
    File,
    /// Two SQLite files: the coordinator in one, a state store in the other.
    Split,
    /// This many members of etcd.
    Etcd(usize),
}

/// A worker of a run: what it runs, its name, its machine and its terms.
#[derive(Debug, Clone)]
pub struct Post {
    /// What it runs.
    pub role: Role,
    /// Its name.
    pub name: &'static str,
    /// Its machine, 0 to 2: each has its own way to the members of etcd.
    pub machine: usize,
    /// Its terms.
    pub terms: Terms,
}

impl Post {
    /// A worker of the library on these terms.
    pub fn library(name: &'static str, machine: usize, terms: Terms) -> Self {
        Self {
            role: Role::Library,
            name,
            machine,
            terms,
        }
    }

    /// A worker of the command line.
    pub fn exec(name: &'static str, machine: usize) -> Self {
        Self {
            role: Role::Exec,
            name,
            machine,
            terms: Terms::default(),
        }
    }

    /// The usual workers: two of the library, and two of the command line where the ground takes it.
    pub fn usual(ground: Ground) -> Vec<Self> {
        let mut posts = vec![
            Self::library("library-a", 0, Terms::default()),
            Self::library("library-b", 2, Terms::default()),
        ];
        // Workers that run commands share a machine, so that a later one finds the commands of an
        // earlier one.
        if ground != Ground::Split {
            posts.insert(1, Self::exec("exec-a", 1));
            posts.push(Self::exec("exec-b", 1));
        }
        posts
    }
}

/// A run's folder, store and workers.
#[derive(Debug)]
pub struct Scene {
    folder: Option<tempfile::TempDir>,
    ground: Ground,
    /// What the workers have in common.
    pub site: Arc<Site>,
    /// The name of the store.
    pub store: String,
    /// Sees the store.
    pub client: Client,
    /// Sends, and remembers what was promised.
    pub traffic: Traffic,
    /// The processes.
    pub workers: Vec<Worker>,
    /// The cluster that they work on, if it is not a file.
    pub etcd: Option<Etcd>,
    /// Follows the changes from the start on.
    pub feed: Feed,
}

impl Scene {
    /// Makes the folder and a store in it, and starts the usual workers on one file.
    ///
    /// # Errors
    ///
    /// When something cannot be made or started.
    pub async fn new(programs: Programs, ttl: Duration, late: Duration) -> Result<Self, BoxError> {
        let mut scene = Self::empty(programs, ttl, late, Ground::File).await?;
        scene.man(&Post::usual(Ground::File))?;
        Ok(scene)
    }

    /// Makes the folder and a store in it, without workers.
    ///
    /// # Errors
    ///
    /// When something cannot be made or started.
    pub async fn empty(
        programs: Programs,
        ttl: Duration,
        late: Duration,
        ground: Ground,
    ) -> Result<Self, BoxError> {
        let folder = tempfile::tempdir()?;
        let witnesses = folder.path().join("witness");
        fs::create_dir(&witnesses)?;
        let site = Arc::new(Site {
            programs,
            folder: folder.path().to_owned(),
            journal: Arc::new(Journal::open(&witnesses, "test")?),
            ttl,
            late,
            shaken: matches!(ground, Ground::Etcd(_)),
        });
        let wall = time::wall().as_microsecond();
        site.journal.say(Said::Clock { wall });
        let etcd = match ground {
            Ground::Etcd(members) => Some(Etcd::start(&site.folder, members, 3).await?),
            _ => None,
        };
        let store = match (&etcd, ground) {
            (Some(etcd), _) => etcd.cluster.url(NAMESPACE),
            (None, Ground::Split) => ground::split(&site.store(), &site.folder.join("states.db")),
            (None, _) => site.store(),
        };
        let client = Client::new(&ground::open(&store).await?);
        let feed = Feed::follow(&client).await?;
        Ok(Self {
            folder: Some(folder),
            ground,
            site,
            store,
            traffic: Traffic::new(&client),
            client,
            workers: Vec::new(),
            etcd,
            feed,
        })
    }

    /// Starts workers, after those that are there.
    ///
    /// # Errors
    ///
    /// When one does not start.
    pub fn man(&mut self, posts: &[Post]) -> Result<(), BoxError> {
        for post in posts {
            let store = match &self.etcd {
                Some(etcd) => etcd.ways[post.machine].url(NAMESPACE),
                None => self.store.clone(),
            };
            let worker = Worker::new(&self.site, post.role, post.name, &store);
            let mut worker = worker.on_terms(post.terms.clone());
            worker.launch()?;
            self.workers.push(worker);
        }
        Ok(())
    }

    /// Continues in another store, to which the tasks were copied; workers that are started from now
    /// on work there. The promises stay.
    ///
    /// # Errors
    ///
    /// Those of the store.
    pub async fn move_to(&mut self, client: Client, store: &str) -> Result<(), BoxError> {
        self.feed = Feed::follow(&client).await?;
        self.traffic = self.traffic.clone_to(&client);
        self.client = client;
        self.store = store.to_owned();
        self.etcd = None;
        Ok(())
    }

    /// Waits until as many nodes live as there are workers.
    ///
    /// # Errors
    ///
    /// When they do not within `within`, or a worker has ended.
    pub async fn wait_for_nodes(&mut self, within: Duration) -> Result<(), BoxError> {
        let deadline = Instant::now() + within;
        loop {
            for worker in &mut self.workers {
                worker.supervise()?;
            }
            let nodes = self.client.nodes().await?;
            if nodes.len() >= self.workers.len() {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(format!("these nodes live after {within:?}: {nodes:#?}").into());
            }
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Shuts the workers down and reads everything.
    ///
    /// # Errors
    ///
    /// When a worker does not end well, or something cannot be read.
    pub async fn end(&mut self, within: Duration) -> Result<World, BoxError> {
        let settled_at = time::wall();
        for worker in &mut self.workers {
            worker.shut_down(SHUTDOWN).await?;
        }
        let feed = Some(self.feed.all(&self.client, within).await?);
        let (witnesses, promised) = (self.site.witnesses(), self.traffic.promised());
        let mut world = World::load(&self.client, &witnesses, promised, feed).await?;
        world.ttl = u64::try_from(self.site.ttl.as_micros())?;
        world.settled_at = Some(settled_at);
        world.lost_later = self.store.starts_with("etcd");
        Ok(world)
    }

    /// Fails with everything that breaks one of the invariants.
    ///
    /// # Errors
    ///
    /// The report of what does not hold.
    pub fn check(&self, world: &World) -> Result<(), BoxError> {
        let violations = match self.ground {
            Ground::Split => invariants::check_split(world),
            Ground::File | Ground::Etcd(_) => invariants::check_all(world),
        };
        if violations.is_empty() {
            return Ok(());
        }
        Err(invariants::report(world, &violations).into())
    }

    /// Keeps the folder, so that a person can read it. Returns its path.
    pub fn keep(&mut self) -> String {
        self.workers.clear();
        self.etcd = None;
        match self.folder.take() {
            Some(folder) => folder.keep().display().to_string(),
            None => self.site.folder.display().to_string(),
        }
    }
}

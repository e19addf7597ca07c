//! The index in memory has the same lists and counts as a read of every task.

use jiff::{SignedDuration, Timestamp};
use windlass::{
    Client, Command, NewTask, StateKind,
    store::{Filter, Order, Query, Store},
};
use windlass_etcd_cluster::Proxy;

use crate::{
    server::Server,
    support::{in_time, open, raw, until},
};

/// The ids of a list, in order.
async fn ids(client: &Client, query: &Query) -> Vec<String> {
    let (mut found, mut cursor) = (Vec::new(), None);
    loop {
        let page = client.page(query, cursor.as_ref()).await.unwrap();
        found.extend(
            page.tasks
                .into_iter()
                .map(|record| record.task.id.to_string()),
        );
        match page.next {
            Some(next) => cursor = Some(next),
            None => return found,
        }
    }
}

/// Returns everything that an index can answer.
async fn answers(client: &Client) -> String {
    let kind = Filter::new().kind("b".parse().unwrap());
    let paused = Filter::new().states([StateKind::Paused]);
    let queries = [
        Query::new(Filter::default()),
        Query::new(Filter::default()).order(Order::Due),
        Query::new(kind).reversed(),
        Query::new(paused),
    ];
    let mut lists = Vec::new();
    for query in queries {
        lists.push(ids(client, &query.limit(7)).await);
    }
    let counts = client.counts().await.unwrap();
    let groups = client.stats().await.unwrap().kinds;
    format!("{lists:?}\n{counts:?}\n{groups:?}")
}

/// Changes some tasks through a client.
async fn change(client: &Client, round: u64, random: &mut fastrand::Rng) {
    for n in 0..20 {
        let id = format!("r{round}-{n}");
        let task = NewTask::new(["a", "b"][random.usize(..2)]).id(&id);
        let hour = SignedDuration::from_hours(random.i64(1..50));
        let task = match random.bool() {
            true => task.start_at(Timestamp::now() + hour),
            false => task,
        };
        client.submit(task).await.unwrap();
        match random.u8(..4) {
            0 => client.force_delete(&id).await.unwrap(),
            1 => drop(client.command(&id, Command::Pause).await.unwrap()),
            _ => {}
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_index_has_what_others_write_also_after_cuts_and_compactions() {
    let server = Server::start();
    let proxy = Proxy::to(&[server.endpoint()]).await.unwrap();
    let (_plain, scans) = open(&server.url("ns")).await;
    let (_far, indexed) = open(&format!("{}?memory-index=true", proxy.url("ns"))).await;
    let (_other, other) = open(&server.url("other")).await;
    let mut random = fastrand::Rng::with_seed(7);
    for round in 0..6 {
        let cut = round % 2 == 1;
        if cut {
            proxy.cut();
        }
        change(&scans, round, &mut random).await;
        // The newest revision is one of another namespace.
        let id = format!("o{round}");
        other.submit(NewTask::new("a").id(id)).await.unwrap();
        if cut {
            let mut etcd = raw(&server.endpoint()).await;
            let now = etcd.get("x", None).await.unwrap();
            let revision = now.header().unwrap().revision();
            etcd.compact(revision, None).await.unwrap();
            proxy.mend();
        }
        let expected = answers(&scans).await;
        let found = in_time("an answer of the index", answers(&indexed)).await;
        assert_eq!(found, expected, "round {round}");
    }
}

/// Returns how many bytes the server has sent to its clients.
async fn sent(server: &Server) -> u64 {
    let name = "etcd_network_client_grpc_sent_bytes_total";
    crate::idle::total(server, name).await
}

/// Opens a namespace with an index, and 2,000 tasks with props of this length.
async fn indexed(server: &Server, props: usize) -> (Store, Client) {
    let (store, client) = open(&format!("{}?memory-index=true", server.url("ns"))).await;
    let tasks = (0..2000).map(|n| {
        NewTask::new("k")
            .id(format!("t{n}"))
            .props(&"p".repeat(props))
    });
    for submitted in client.submit_many(tasks).await {
        submitted.unwrap();
    }
    (store, client)
}

/// Makes a call until the server sends less than `most` bytes for it: the index has to become current first.
async fn costs(server: &Server, most: u64, call: impl AsyncFn()) {
    until("the index is current, and reads little", async || {
        let before = sent(server).await;
        call().await;
        sent(server).await - before < most
    })
    .await;
}

/// The index keeps short values. All tasks have more than 200 kB.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_index_reads_no_task_for_counts_and_pages() {
    let server = Server::start();
    let (_store, client) = indexed(&server, 100).await;
    costs(&server, 5_000, async || {
        drop(client.counts().await.unwrap());
    })
    .await;
    costs(&server, 5_000, async || {
        drop(client.stats().await.unwrap());
    })
    .await;
    let query = Query::new(Filter::default()).limit(100);
    costs(&server, 5_000, async || {
        let page = client.page(&query, None).await.unwrap();
        assert_eq!(page.tasks.len(), 100);
        assert_eq!(page.tasks[0].task.props.len(), 102);
    })
    .await;
}

/// A page read three times as many tasks as it returned.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_reads_no_more_tasks_than_it_returns() {
    let server = Server::start();
    let (_store, client) = indexed(&server, 2_000).await;
    let query = Query::new(Filter::default()).limit(100);
    // One task more than the page has shows whether another page follows.
    costs(&server, 300_000, async || {
        let page = client.page(&query, None).await.unwrap();
        assert!(page.tasks.iter().all(|one| one.task.props.len() == 2_002));
    })
    .await;
    let without_props = query.without_props();
    costs(&server, 5_000, async || {
        let page = client.page(&without_props, None).await.unwrap();
        assert!(page.tasks.iter().all(|one| one.task.props.is_null()));
    })
    .await;
}

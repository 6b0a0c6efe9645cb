//! The order of the public client, by tables: what happens to each try, and where the next one
//! goes.

use plimsoll_schedule::{Stream, rng, uniform};

use super::*;

const SECOND: i64 = 1_000_000_000;

fn failover(servers: usize, proxies: usize, balance: Balance, to_server: bool) -> Failover {
    Failover::new(servers, proxies, balance, to_server, rng(7, Stream::Driver, 0, 0))
}

fn named(way: Option<Way>) -> String {
    match way {
        None => "stop".to_owned(),
        Some(Way { server, proxy: None }) => format!("s{server}"),
        Some(Way {
            server,
            proxy: Some(proxy),
        }) => format!("p{proxy}s{server}"),
    }
}

fn trouble(letter: char) -> Failed {
    let trouble = match letter {
        'c' => Trouble::Connect,
        'n' => Trouble::Network,
        'p' => Trouble::Protocol,
        's' => Trouble::Server,
        other => panic!("{other}"),
    };
    Failed {
        trouble,
        age: None,
        max_age: None,
    }
}

/// The ways of one request whose tries fail as `troubles` says.
fn ways(failover: &mut Failover, troubles: &str) -> String {
    let mut seen = vec![named(Some(failover.begin(|_| false)))];
    for letter in troubles.chars() {
        seen.push(named(failover.after(trouble(letter))));
    }
    seen.join(" ")
}

#[test]
fn the_order_of_the_client() {
    for (servers, proxies, to_server, troubles, expected) in [
        // Connect errors: every proxy, then the servers directly.
        (1, 0, true, "c", "s0 stop"),
        (2, 0, true, "cc", "s0 s1 stop"),
        (1, 1, true, "cc", "p0s0 s0 stop"),
        (1, 1, false, "c", "p0s0 stop"),
        (2, 2, true, "cccc", "p0s0 p1s0 s0 s1 stop"),
        (2, 2, false, "cc", "p0s0 p1s0 stop"),
        // A connection that breaks: the next server through the same proxy, then the next proxy,
        // then directly.
        (1, 1, true, "nn", "p0s0 s0 stop"),
        (2, 1, true, "nnnn", "p0s0 p0s1 s0 s1 stop"),
        (2, 2, true, "nnnnnn", "p0s0 p0s1 p1s0 p1s1 s0 s1 stop"),
        (2, 2, false, "nnnn", "p0s0 p0s1 p1s0 p1s1 stop"),
        // What is no answer is like a connection that breaks.
        (2, 1, true, "pppp", "p0s0 p0s1 s0 s1 stop"),
        // Server errors: every server, the first again through the next proxy, then directly.
        (2, 0, true, "ss", "s0 s1 stop"),
        (2, 1, true, "ssss", "p0s0 p0s1 s0 s1 stop"),
        (2, 2, true, "ssssss", "p0s0 p0s1 p1s0 p1s1 s0 s1 stop"),
        (2, 2, false, "ssss", "p0s0 p0s1 p1s0 p1s1 stop"),
        // One query that fails costs two requests behind a proxy.
        (1, 1, true, "ss", "p0s0 s0 stop"),
        // Mixed: a dead proxy, then a bad server behind the other, then all is well.
        (2, 2, true, "cs", "p0s0 p1s0 p1s1"),
        // A bad server is left out when the servers begin anew, until all have been tried.
        (3, 1, true, "scn", "p0s0 p0s1 s1 s2"),
        // Servers begun anew after server errors: the proxy group is not begun anew as well.
        (2, 2, true, "ssn", "p0s0 p0s1 p1s0 s0"),
    ] {
        let mut failover = failover(servers, proxies, Balance::None, to_server);
        assert_eq!(
            ways(&mut failover, troubles),
            expected,
            "{servers} servers, {proxies} proxies, {troubles}"
        );
    }
}

#[test]
fn what_was_bad_stays_so_for_its_time() {
    let mut failover = failover(2, 2, Balance::None, true);
    assert!(!failover.forget(0), "the first time there is nothing to forget");
    assert_eq!(ways(&mut failover, "c"), "p0s0 p1s0");
    assert!(!failover.forget(299 * SECOND));
    assert_eq!(
        ways(&mut failover, "c"),
        "p1s0 s0",
        "the first proxy is still bad"
    );
    assert!(!failover.forget(299 * SECOND));
    assert_eq!(
        ways(&mut failover, "s"),
        "s0 s1",
        "direct, and the first server is bad"
    );
    assert!(failover.forget(300 * SECOND), "five minutes: proxies");
    assert_eq!(ways(&mut failover, ""), "p0s1", "servers stay as they were");
    assert!(!failover.forget(599 * SECOND));
    assert!(failover.forget(1800 * SECOND), "thirty minutes: servers");
    assert_eq!(ways(&mut failover, ""), "p0s0");
}

#[test]
fn when_nothing_is_left_the_next_request_begins_from_the_beginning() {
    let mut failover = failover(2, 1, Balance::None, true);
    failover.forget(0);
    assert_eq!(ways(&mut failover, "ccc"), "p0s0 s0 s1 stop");
    assert!(failover.forget(1));
    assert_eq!(ways(&mut failover, ""), "p0s0");
    assert!(!failover.forget(2));
}

#[test]
fn what_was_cached_for_long_is_asked_for_anew_in_the_same_place() {
    let mut failover = failover(1, 1, Balance::None, true);
    failover.forget(0);
    let protocol = |age| Failed { age, ..trouble('p') };
    let way = failover.begin(|_| false);
    assert_eq!(failover.fresh(), Fresh::AsAsked);
    assert_eq!(failover.after(protocol(Some(301))), Some(way));
    assert_eq!(failover.fresh(), Fresh::MaxAge(300));
    assert_eq!(failover.after(protocol(Some(301))), Some(way));
    assert_eq!(failover.fresh(), Fresh::NoCache);
    assert_eq!(named(failover.after(protocol(Some(301)))), "s0");
    assert_eq!(failover.fresh(), Fresh::AsAsked);

    failover.begin(|_| true);
    assert_eq!(
        named(failover.after(protocol(Some(300)))),
        "stop",
        "young enough to be believed"
    );
    failover.forget(1);
    let way = failover.begin(|_| false);
    let said = |age, max_age| Failed {
        age: Some(age),
        max_age: Some(max_age),
        ..trouble('s')
    };
    assert_eq!(
        failover.after(said(11, 10)),
        Some(way),
        "the server's own word, also for its errors"
    );
    assert_eq!(failover.fresh(), Fresh::MaxAge(10));
    assert_eq!(
        named(failover.after(said(0, 10))),
        "s0",
        "only protocol errors go on to no-cache"
    );
}

#[test]
fn balanced_hosts_are_entered_anywhere_and_left_after_one_round() {
    let mut failover = failover(1, 3, Balance::Proxies, true);
    let mut first = [0; 3];
    for _ in 0..3_000 {
        first[failover.begin(|_| false).proxy.unwrap()] += 1;
    }
    assert!(
        first.iter().all(|&count: &i32| (count - 1_000).abs() < 130),
        "{first:?}"
    );
    let start = failover.begin(|_| false).proxy.unwrap();
    assert_eq!(
        failover.begin(|way| way.proxy == Some(start)).proxy,
        Some(start),
        "an open connection stays"
    );
    let round: Vec<Option<usize>> = (0..2)
        .map(|_| failover.after(trouble('c')).unwrap().proxy)
        .collect();
    assert_eq!(round, [Some((start + 1) % 3), Some((start + 2) % 3)]);
    assert_eq!(named(failover.after(trouble('c'))), "s0", "all three were tried");

    let mut failover = self::failover(3, 0, Balance::Servers, true);
    failover.forget(0);
    let bad = failover.begin(|_| false).server;
    assert!(failover.after(trouble('s')).is_some());
    for _ in 0..100 {
        assert_ne!(failover.begin(|_| false).server, bad, "a bad one is not chosen");
    }
}

#[test]
fn connections_that_break_go_round_a_balanced_group_for_each_server() {
    let mut failover = failover(2, 2, Balance::Proxies, true);
    let start = failover.begin(|_| false).proxy.unwrap();
    let other = 1 - start;
    let seen: Vec<String> = "nnnnnn"
        .chars()
        .map(|letter| named(failover.after(trouble(letter))))
        .collect();
    assert_eq!(
        seen,
        [
            format!("p{other}s0"),
            format!("p{start}s1"),
            format!("p{other}s1"),
            "s0".to_owned(),
            "s1".to_owned(),
            "stop".to_owned(),
        ]
    );
}

#[test]
fn every_request_comes_to_an_end() {
    let mut draw = rng(3, Stream::Driver, 0, 1);
    for round in 0..20_000 {
        let (servers, proxies) = (1 + uniform(&mut draw, 4) as usize, uniform(&mut draw, 4) as usize);
        let balance = [Balance::None, Balance::Proxies, Balance::Servers][uniform(&mut draw, 3) as usize];
        let mut failover = failover(servers, proxies, balance, uniform(&mut draw, 2) == 0);
        for request in 0..3 {
            failover.forget(request);
            failover.begin(|_| false);
            let mut tries = 1;
            loop {
                let failed = Failed {
                    age: Some(400 * uniform(&mut draw, 2)),
                    ..trouble("cnps".chars().nth(uniform(&mut draw, 4) as usize).unwrap())
                };
                let Some(way) = failover.after(failed) else { break };
                assert!(way.server < servers && way.proxy.is_none_or(|proxy| proxy < proxies));
                tries += 1;
                assert!(
                    tries < 500,
                    "round {round}: {servers} servers, {proxies} proxies, {balance:?}"
                );
            }
        }
    }
}

//! Several caches, and caches that cannot be reached or refuse PURGE.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use plimsoll_services::frontier::CacheConfig;

use super::{Caches, ONE, TABLES, TWO, gateway, kept, number, target, wait_until};
use crate::servers::{self, Kind};

#[test]
fn caches_are_purged_in_their_order() {
    let Some(server) = servers::shared(Kind::Postgres) else {
        return;
    };
    let name = server.database(TABLES);
    let caches = Caches::new(2);
    let service = gateway(&server.url(&name), caches.config());
    let queries: Vec<String> = (0..100)
        .map(|id| format!("SELECT text FROM one WHERE id = {id}"))
        .collect();
    for sql in &queries {
        assert!(kept(&service, sql));
    }
    server.sql(&name, "UPDATE one SET text = 'x'");
    wait_until("both caches", || number(&service, "purged") == 200);
    let purges = caches.purges.lock().unwrap();
    for sql in &queries {
        let url = format!("http://h{}", target(sql));
        let at = |number| {
            purges
                .iter()
                .position(|purge| *purge == (number, url.clone()))
                .unwrap()
        };
        assert!(at(0) < at(1));
    }
}

#[test]
fn a_cache_that_cannot_be_reached_is_purged_when_it_is_back() {
    let Some(server) = servers::shared(Kind::Postgres) else {
        return;
    };
    let name = server.database(TABLES);
    let mut caches = Caches::new(1);
    let away = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    caches.proxies.insert(0, format!("http://{away}"));
    let service = gateway(&server.url(&name), caches.config());
    assert!(kept(&service, ONE));
    server.sql(&name, "UPDATE one SET text = 'x'");
    // The listening cache has the number 0. It does not wait without a time limit.
    wait_until("the next cache", || caches.count(0, ONE) == 1);
    assert!(number(&service, "purge_failures") > 0 && number(&service, "owed") == 1);
    caches.listen(7, TcpListener::bind(away).unwrap());
    wait_until("the cache that was away", || caches.count(7, ONE) == 1);
    wait_until("a second purge of the next cache", || caches.count(0, ONE) == 2);
    assert_eq!(number(&service, "owed"), 0);
}

/// A cache that refuses PURGE is detected before caches store a response.
#[test]
fn nothing_is_cached_while_a_cache_refuses_purge() {
    let Some(server) = servers::all().next() else {
        return;
    };
    let name = server.database(TABLES);
    let caches = Caches::new(1);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let refusing = format!("http://{}", listener.local_addr().unwrap());
    let status = Arc::new(Mutex::new("403 Forbidden"));
    let answers = status.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, answers) = (stream.unwrap(), answers.clone());
            std::thread::spawn(move || {
                let lines = BufReader::new(stream.try_clone().unwrap()).lines();
                for _ in lines
                    .map_while(Result::ok)
                    .filter(|line| line.starts_with("PURGE "))
                {
                    let status = *answers.lock().unwrap();
                    let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
                    if stream.write_all(answer.as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    let mut config = caches.config();
    config.caches.push(CacheConfig { proxy: refusing });
    let service = gateway(&server.url(&name), config);
    for _ in 0..3 {
        assert!(!kept(&service, ONE), "before the first purge");
    }
    assert_eq!(number(&service, "refusing"), 1);
    assert_eq!(number(&service, "unkept"), 3);
    *status.lock().unwrap() = "404 Not Found";
    wait_until("it to take PURGE", || kept(&service, ONE));
    assert_eq!(number(&service, "refusing"), 0);
    *status.lock().unwrap() = "405 Method Not Allowed";
    server.sql(&name, "UPDATE one SET text = 'x'");
    wait_until("the refusal", || number(&service, "refusing") == 1);
    assert!(!kept(&service, TWO));
    assert_eq!(number(&service, "owed"), 1);
    *status.lock().unwrap() = "200 OK";
    wait_until("the debt to be paid", || number(&service, "owed") == 0);
    wait_until("an answer to be kept", || kept(&service, TWO));
}

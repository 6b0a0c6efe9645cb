use super::*;

#[test]
fn names_are_joined_and_told_apart() {
    let mut places = Places::default();
    let base = places.join(None, b"/home//you/./");
    let mut joined = |path: &str| {
        let id = places.join(Some(base), path.as_bytes());
        let plain = places.plain(id);
        let words = |id| String::from_utf8_lossy(places.names().path(id)).into_owned();
        (words(id), words(plain))
    };
    for (path, whole, plain) in [
        ("x", "/home/you/x", "/home/you/x"),
        ("./x//y/.", "/home/you/x/y", "/home/you/x/y"),
        ("../x", "/home/you/../x", "/home/x"),
        ("../../../x", "/home/you/../../../x", "/x"),
        ("..a/b..", "/home/you/..a/b..", "/home/you/..a/b.."),
        ("/", "/", "/"),
        ("/..", "/..", "/"),
        ("/a/..", "/a/..", "/"),
    ] {
        assert_eq!(joined(path), (whole.to_owned(), plain.to_owned()), "{path}");
    }
    let nowhere = places.join(None, b"../a");
    assert_eq!(places.names().path(places.plain(nowhere)), b"../a");
    let here = places.join(None, b".");
    assert_eq!(places.names().path(here), b".");
}

#[test]
fn names_have_a_longest_length() {
    let mut places = Places::default();
    let asked = places.join(None, &[b"/".as_slice(), &[b'x'; 9_000]].concat());
    assert_eq!(places.names().path(asked).len(), MAX_ASKED);
    let mut here = places.join(None, b"/top");
    let mut longest = 0;
    for _ in 0..10 {
        here = places.join(Some(here), &[b'd'; 1_000]);
        longest = longest.max(places.names().path(here).len());
    }
    assert!((MAX_JOINED - 1_001..=MAX_JOINED).contains(&longest), "{longest}");
    // What lies too deep after a rename has no name that is known.
    let (old, inner) = (
        places.join(None, b"/old"),
        places.join(None, &[b"/old/".as_slice(), &[b'f'; 3_000]].concat()),
    );
    let file = places.met(inner, Kind::File);
    let new = places.name(&[b"/".as_slice(), &[b'n'; 6_000]].concat());
    places.rename(old, new);
    assert_eq!((places.at(inner), places.name_of(file)), (None, inner));
}

#[test]
fn two_names_of_one_file_stay_when_one_is_renamed_to_the_other() {
    let mut places = Places::default();
    let [one, two, link] = ["/one", "/two", "/link"].map(|path| places.join(None, path.as_bytes()));
    let file = places.met(one, Kind::File);
    places.link(file, two);
    assert_eq!(places.rename(one, two), (file, None));
    assert_eq!((places.at(one), places.at(two)), (Some(file), Some(file)));
    // A symbolic link is a file of its own, and takes the other's name.
    places.leads(link, one, file);
    places.rename(link, one);
    assert_eq!((places.at(link), places.at(one)), (None, Some(file)));
}

#[test]
fn what_lies_in_a_directory_goes_with_it() {
    let mut places = Places::default();
    let name = |places: &mut Places, path: &str| places.join(None, path.as_bytes());
    let (old, new) = (name(&mut places, "/a/b"), name(&mut places, "/c"));
    let inner = name(&mut places, "/a/b/d/e");
    let beside = name(&mut places, "/a/bc");
    let (file, other) = (places.met(inner, Kind::File), places.met(beside, Kind::File));
    let (directory, replaced) = places.rename(old, new);
    assert_eq!(replaced, None);
    assert_eq!(places.name_of(directory), new);
    let moved = name(&mut places, "/c/d/e");
    assert_eq!(
        (places.at(moved), places.at(inner), places.at(beside)),
        (Some(file), None, Some(other))
    );
    assert_eq!(places.name_of(file), moved);
    let (first, second) = places.exchange(new, beside);
    assert_eq!((first, second), (directory, other));
    assert_eq!(
        (places.at(new), places.at(beside)),
        (Some(other), Some(directory))
    );
    let there = name(&mut places, "/a/bc/d/e");
    assert_eq!(places.at(there), Some(file));
}

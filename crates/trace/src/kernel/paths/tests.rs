use super::*;

#[test]
fn paths_are_joined_and_have_a_form_without_dots() {
    let mut paths = Paths::default();
    let base = paths.join(None, b"/home//you/./");
    let mut joined = |path: &str| {
        let id = paths.join(Some(base), path.as_bytes());
        let plain = paths.plain(id);
        let text = |id| String::from_utf8_lossy(paths.names().path(id)).into_owned();
        (text(id), text(plain))
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
    let nowhere = paths.join(None, b"../a");
    assert_eq!(paths.names().path(paths.plain(nowhere)), b"../a");
    let here = paths.join(None, b".");
    assert_eq!(paths.names().path(here), b".");
}

#[test]
fn the_length_of_paths_is_limited() {
    let mut paths = Paths::default();
    let path = paths.join(None, &[b"/".as_slice(), &[b'x'; 9_000]].concat());
    assert_eq!(paths.names().path(path).len(), MAX_PATH);
    let mut here = paths.join(None, b"/top");
    let mut longest = 0;
    for _ in 0..10 {
        here = paths.join(Some(here), &[b'd'; 1_000]);
        longest = longest.max(paths.names().path(here).len());
    }
    assert!((MAX_JOINED - 1_001..=MAX_JOINED).contains(&longest), "{longest}");
    // A file that is too deep after a rename has no known path.
    let (old, inner) = (
        paths.join(None, b"/old"),
        paths.join(None, &[b"/old/".as_slice(), &[b'f'; 3_000]].concat()),
    );
    let file = paths.find_or_add(inner, Kind::File);
    let new = paths.name(&[b"/".as_slice(), &[b'n'; 6_000]].concat());
    paths.rename(old, new);
    assert_eq!((paths.at(inner), paths.name_of(file)), (None, inner));
}

#[test]
fn renaming_one_path_of_a_file_to_another_keeps_both() {
    let mut paths = Paths::default();
    let [one, two, link] = ["/one", "/two", "/link"].map(|path| paths.join(None, path.as_bytes()));
    let file = paths.find_or_add(one, Kind::File);
    paths.link(file, two);
    assert_eq!(paths.rename(one, two), (file, None));
    assert_eq!((paths.at(one), paths.at(two)), (Some(file), Some(file)));
    // A symbolic link is a file of its own and replaces the other path.
    paths.set_target(link, one, file);
    paths.rename(link, one);
    assert_eq!((paths.at(link), paths.at(one)), (None, Some(file)));
}

#[test]
fn files_in_a_renamed_directory_are_renamed() {
    let mut paths = Paths::default();
    let name = |paths: &mut Paths, path: &str| paths.join(None, path.as_bytes());
    let (old, new) = (name(&mut paths, "/a/b"), name(&mut paths, "/c"));
    let inner = name(&mut paths, "/a/b/d/e");
    let beside = name(&mut paths, "/a/bc");
    let (file, other) = (
        paths.find_or_add(inner, Kind::File),
        paths.find_or_add(beside, Kind::File),
    );
    let (directory, replaced) = paths.rename(old, new);
    assert_eq!(replaced, None);
    assert_eq!(paths.name_of(directory), new);
    let moved = name(&mut paths, "/c/d/e");
    assert_eq!(
        (paths.at(moved), paths.at(inner), paths.at(beside)),
        (Some(file), None, Some(other))
    );
    assert_eq!(paths.name_of(file), moved);
    let (first, second) = paths.exchange(new, beside);
    assert_eq!((first, second), (directory, other));
    assert_eq!((paths.at(new), paths.at(beside)), (Some(other), Some(directory)));
    let there = name(&mut paths, "/a/bc/d/e");
    assert_eq!(paths.at(there), Some(file));
}

"""Built-in admission plugins: what a default kube-apiserver does to, or refuses about, a write after authorization.

Each module is one plugin of the real server, written as pure functions: attributes of the request, the new and the old
object, and a view of the cluster come in; a refusal or nothing comes out. The table of plugins in their order is in
``plugins.py``; ``apiserver/admission.py`` calls it. Defaults and validation of the kinds themselves live in ``kube/``.
"""

"""kubectl sessions with custom kinds: define, explain, apply, scale, select, wait, delete."""

from __future__ import annotations

from harness.kubectl_session import Scripted, Watching, k

GROUP = "shop.example.com"
SPEC = {
    "type": "object",
    "description": "What is wished for.",
    "required": ["size"],
    "properties": {
        "size": {"type": "string", "enum": ["small", "large"], "description": "How large it is."},
        "replicas": {"type": "integer", "default": 1, "minimum": 0},
        "toppings": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {"name": {"type": "string"}, "grams": {"type": "integer"}},
            },
        },
        "port": {"x-kubernetes-int-or-string": True},
    },
}
STATUS = {"type": "object", "properties": {"phase": {"type": "string"}, "replicas": {"type": "integer"}}}
PIZZAS = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"pizzas.{GROUP}"},
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"plural": "pizzas", "kind": "Pizza", "shortNames": ["pz"], "categories": ["food"]},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": SPEC, "status": STATUS}}},
                "subresources": {
                    "status": {},
                    "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
                },
                "additionalPrinterColumns": [
                    {"name": "Size", "type": "string", "jsonPath": ".spec.size"},
                    {"name": "Grams", "type": "string", "jsonPath": ".spec.toppings[*].grams", "priority": 1},
                    {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
                    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
                ],
            }
        ],
    },
}


def pizza(name: str, **spec: object) -> dict[str, object]:
    return {"apiVersion": f"{GROUP}/v1", "kind": "Pizza", "metadata": {"name": name}, "spec": spec}


def only_pizzas(output: str) -> str:
    return "\n".join(line for line in output.splitlines() if "pizza" in line)


EXTENDING: dict[str, list[Scripted]] = {
    "a kind of one's own": [
        k("get pizzas"),
        k("create -f -", PIZZAS),
        k(f"wait --for=condition=Established crd/pizzas.{GROUP} --timeout=20s"),
        k("get crd", only=only_pizzas),
        k("api-resources --categories=food", until="pizza"),
        k(f"api-resources --api-group={GROUP} -o wide", until="pizza"),
        k("explain pizza", until="Pizza"),
        k("explain pizza.spec"),
        k("explain pizza --recursive"),
        k("explain pz.spec.size"),
        k("create -f -", pizza("a", size="small", toppings=[{"name": "cheese", "grams": 100}])),
        k("create -f -", pizza("a", size="small")),
        # One thing wrong at a time: a real server tells several in the order of a Go map.
        k("create -f -", pizza("b", size="huge")),
        k("create -f -", pizza("b", size="small", port=True)),
        k("create -f -", pizza("b", size="small", extra=1)),
        k("create --validate=false -f -", pizza("b", size="small", extra=1)),
        k("get pizzas"),
        k("get pz -o wide"),
        k("get pizza.v1.shop.example.com a -o yaml"),
        k("get food"),
        k("get pizzas -o name"),
        k("get pz a -o jsonpath='{.spec.toppings[0].name}'"),
        k("describe pizza a"),
        k("apply -f -", pizza("c", size="large", toppings=[{"name": "ham"}])),
        k("apply -f -", pizza("c", size="large", toppings=[{"name": "ham", "grams": 50}], replicas=2)),
        k("apply -f -", pizza("c", size="large")),
        k("diff -f -", pizza("c", size="small")),
        k("get pizza c -o yaml"),
        k("apply --server-side -f -", pizza("d", size="small", toppings=[{"name": "ham"}])),
        k("apply --server-side --field-manager=other -f -", pizza("d", size="large")),
        k("apply --server-side --field-manager=other --force-conflicts -f -", pizza("d", size="large")),
        k("get pizza d -o yaml --show-managed-fields"),
        k("scale pizza/a --replicas=3"),
        k("scale pizza/a --replicas=5 --current-replicas=1"),
        k("get pizza a -o jsonpath='{.spec.replicas}'"),
        k('patch pizza a --type=merge -p \'{"spec":{"size":"large"}}\''),
        k('patch pizza a -p \'{"spec":{"size":"large"}}\''),
        k('patch pizza a --subresource=status --type=merge -p \'{"status":{"phase":"Baked"}}\''),
        k("get pizza a"),
        k("wait pizza/a --for=jsonpath='{.status.phase}'=Baked --timeout=5s"),
        k("label pizza a oven=hot"),
        k("annotate pizza a note=x"),
        k("get pizzas -l oven=hot"),
        k("edit pizza a", editor="sed -i s/large/small/"),
        Watching("get pizzas -w", 5, 6, (k("label pizza b oven=cold"),)),
        k("replace -f -", pizza("b", size="large")),
        k("delete pizza b"),
        k("delete pizzas --all", only=lambda text: "\n".join(sorted(text.splitlines()))),
        k(f"delete crd pizzas.{GROUP}"),
        k("get pizzas"),
    ],
}
